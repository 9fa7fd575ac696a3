// Mean and variance in two passes: the variance is the mean of squared distances from the mean,
// which a difference of large squares would lose.
#pragma once

#include <cmath>

#include "kernel.h"

namespace graphcheck::kernels {

struct Moments {
  double mean;
  double variance;  // biased: divided by the count
};

// Adds up `count` values of `term(i)` in a few independent sums, for speed and small error.
template <typename Term>
double add_up(int64_t count, Term&& term) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int k = 0; k < 8; ++k) sums[k] += term(i + k);
  }
  double rest = 0;
  for (; i < count; ++i) rest += term(i);
  for (const double sum : sums) rest += sum;
  return rest;
}

// Of `segments` stretches of `length` values each, `stride` apart from start to start.
template <typename T>
Moments moments(const T* data, int64_t segments, int64_t stride, int64_t length) {
  const auto count = static_cast<double>(segments * length);
  double sum = 0;
  for (int64_t s = 0; s < segments; ++s) {
    const T* row = data + s * stride;
    sum += add_up(length, [row](int64_t i) { return static_cast<double>(row[i]); });
  }
  const double mean = sum / count;
  double squares = 0;
  for (int64_t s = 0; s < segments; ++s) {
    const T* row = data + s * stride;
    squares += add_up(length, [row, mean](int64_t i) {
      const double distance = static_cast<double>(row[i]) - mean;
      return distance * distance;
    });
  }
  return {mean, squares / count};
}

// `(x - mean) * scale + shift`. The distance is taken in double, where the mean is exact enough.
template <typename T>
void normalize(const T* from, T* to, int64_t length, double mean, double scale, double shift) {
  for (int64_t i = 0; i < length; ++i) {
    to[i] = static_cast<T>((static_cast<double>(from[i]) - mean) * scale + shift);
  }
}

}  // namespace graphcheck::kernels
