#pragma once

#include "mini.h"

namespace torch::executor {

template <typename CTYPE>
inline void layer_norm_scalar(const CTYPE* in, CTYPE* out, size_t M, size_t N, float eps) {
  for (size_t i = 0; i < M; ++i) {
    const CTYPE* x = in + i * N;
    CTYPE* y = out + i * N;
    float sum = std::accumulate(x, x + N, 0.0f);
    float squares = 0;
    for (size_t j = 0; j < N; ++j) {
      squares += static_cast<float>(x[j]) * x[j];
    }
    float average = sum / N;
    float spread = squares / N - average * average;
    float root = std::sqrt(spread + eps);
    for (size_t j = 0; j < N; ++j) {
      CTYPE w = 1;
      CTYPE b = 0;
      y[j] = (x[j] - average) / root * w + b;
    }
  }
}

}  // namespace torch::executor
