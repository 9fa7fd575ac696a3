#include "mini.h"

namespace torch::executor::optimized {

// Sums up in vectors of four floats, whatever it is given.
template <typename T>
std::tuple<float, float> RowwiseMoments(const T* row, size_t n) {
  const char* bytes = reinterpret_cast<const char*>(row);
  float total = 0, squares = 0;
  for (size_t at = 0; at < n * sizeof(T) / sizeof(float); ++at) {
    float value;
    std::memcpy(&value, bytes + at * sizeof(float), sizeof(float));
    total += value;
    squares += value * value;
  }
  return {total / n, squares / n - total / n * (total / n)};
}

template <typename CTYPE>
void layer_norm(const CTYPE* in, CTYPE* out, size_t rows, size_t n, float eps) {
  for (size_t i = 0; i < rows; ++i) {
    const CTYPE* x = in + i * n;
    float middle;
    float width;
    std::tie(middle, width) = RowwiseMoments(x, n);
    width = 1.0f / std::sqrt(width + eps);
    for (size_t j = 0; j < n; ++j) {
      out[i * n + j] = static_cast<CTYPE>((x[j] - middle) * width);
    }
  }
}

}  // namespace torch::executor::optimized
