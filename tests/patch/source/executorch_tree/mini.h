// What the kernels of this tree need of a runtime: tensors of a few types, nothing else.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

// The upper half of a float, rounded towards zero.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float value) {
    uint32_t all;
    std::memcpy(&all, &value, 4);
    bits = static_cast<uint16_t>(all >> 16);
  }
  operator float() const {
    uint32_t all = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &all, 4);
    return value;
  }
  Half& operator+=(float other) { return *this = Half(static_cast<float>(*this) + other); }
};

enum class ScalarType { Float, Double, Half, BFloat16, Long };
enum class Error { Ok, InvalidArgument };

namespace executorch {
namespace aten {
using ScalarType = ::ScalarType;
}
}  // namespace executorch

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<int64_t> steps;
  ScalarType type;
  mutable std::vector<double> memory;  // room for every type

  Tensor(std::vector<int64_t> sizes, ScalarType scalar_type) : shape(sizes), type(scalar_type) {
    steps.assign(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;) steps[d - 1] = steps[d] * shape[d];
    memory.assign(numel() + 1, 0.0);
  }
  int64_t dim() const { return shape.size(); }
  int64_t size(int64_t d) const { return shape[d]; }
  int64_t numel() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<int64_t>());
  }
  size_t element_size() const {
    return type == ScalarType::Half || type == ScalarType::BFloat16 ? 2
        : type == ScalarType::Float                                 ? 4
                                                                    : 8;
  }
  size_t nbytes() const { return numel() * element_size(); }
  const std::vector<int64_t>& strides() const { return steps; }
  ScalarType scalar_type() const { return type; }
  template <typename T>
  const T* const_data_ptr() const { return reinterpret_cast<const T*>(memory.data()); }
  const void* const_data_ptr() const { return memory.data(); }
  template <typename T>
  T* mutable_data_ptr() const { return reinterpret_cast<T*>(memory.data()); }
};

struct Context {};

namespace c10 {
struct Range {
  size_t from, to;
  struct At {
    size_t value;
    size_t operator*() const { return value; }
    void operator++() { ++value; }
    bool operator!=(const At& other) const { return value != other.value; }
  };
  At begin() const { return {from}; }
  At end() const { return {to}; }
};
inline Range irange(size_t to) { return {0, to}; }
inline Range irange(size_t from, size_t to) { return {from, to}; }
}  // namespace c10

// As a macro that takes a lambda: a body that a C++ grammar would not read.
#define SWITCH_FLOAT_TYPES(TYPE, CONTEXT, NAME, CTYPE, ...) \
  do {                                                      \
    (void)CONTEXT;                                          \
    if (TYPE == ScalarType::Double) {                       \
      using CTYPE = double;                                 \
      __VA_ARGS__();                                        \
    } else if (TYPE == ScalarType::Half) {                  \
      using CTYPE = Half;                                   \
      __VA_ARGS__();                                        \
    } else {                                                \
      using CTYPE = float;                                  \
      __VA_ARGS__();                                        \
    }                                                       \
  } while (false)

inline size_t outer_of(const Tensor& t, int64_t dim) {
  size_t n = 1;
  for (int64_t d = 0; d < dim; ++d) n *= t.size(d);
  return n;
}
inline size_t inner_of(const Tensor& t, int64_t dim) {
  size_t n = 1;
  for (int64_t d = dim + 1; d < t.dim(); ++d) n *= t.size(d);
  return n;
}
#define getLeadingDims outer_of
#define getTrailingDims inner_of

template <typename T>
inline float reduce_add(const T* x, size_t size) {
  float total = 0;
  for (size_t at = 0; at < size; ++at) total += static_cast<float>(x[at]);
  return total;
}
template <typename T>
inline float vec_powerf(const T* x, size_t size) {
  float total = 0;
  for (size_t at = 0; at < size; ++at) total += static_cast<float>(x[at]) * x[at];
  return total;
}
