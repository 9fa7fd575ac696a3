#pragma once

#include "mini.h"

namespace torch::executor {

/// z = x y, with x: m * n, y: n * p.
template <typename T, typename U = T>
inline void vec_matmul(T* z, const U* x, const U* y, int64_t m, int64_t n, int64_t p) {
  for (const auto i : c10::irange(m)) {
    for (const auto j : c10::irange(p)) {
      T sum = 0;
      for (const auto k : c10::irange(n)) {
        sum += x[i * n + k] * y[k * p + j];
      }
      z[i * p + j] = sum;
    }
  }
}

template <typename T, typename U = T>
inline void vec_addmm(T* out, const T* self, const T* one, const T* other, int64_t m, int64_t n,
                      int64_t p, U beta, U alpha) {
  for (const auto i : c10::irange(m)) {
    for (const auto j : c10::irange(p)) {
      T sum = 0;
      for (const auto k : c10::irange(n)) {
        sum += one[i * n + k] * other[k * p + j];
      }
      out[i * p + j] = sum * alpha + self[i * p + j] * beta;
    }
  }
}

}  // namespace torch::executor
