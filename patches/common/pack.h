// Tensors as rows of numbers in the type that sums are kept in.
#pragma once

#include "kernel.h"

namespace graphcheck::kernels {

// Calls `body(element)` with the place in memory of each element, in row-major order.
template <typename Body>
void each_element(const Tensor& tensor, Body&& body) {
  const ssize_t rank = tensor.dim();
  if (tensor.numel() == 0) return;
  if (rank == 0 || is_row_major(tensor)) {
    for (int64_t i = 0; i < tensor.numel(); ++i) body(i);
    return;
  }
  int64_t index[kMaxDims] = {};
  const int64_t inner = tensor.size(rank - 1), step = tensor.strides()[rank - 1];
  int64_t base = 0;
  for (;;) {
    for (int64_t i = 0; i < inner; ++i) body(base + i * step);
    ssize_t dim = rank - 2;
    for (; dim >= 0; --dim) {
      base += tensor.strides()[dim];
      if (++index[dim] < tensor.size(dim)) break;
      base -= tensor.size(dim) * tensor.strides()[dim];
      index[dim] = 0;
    }
    if (dim < 0) return;
  }
}

// The tensor's numbers in row-major order, widened: its own memory where it is so already, a copy
// otherwise. Null (and the call failed) when there is no memory for the copy.
template <typename T>
const Wide<T>* packed(Context& context, const Tensor& tensor) {
  const T* data = data_of<T>(tensor);
  if constexpr (std::is_same_v<T, Wide<T>>) {
    if (is_row_major(tensor)) return data;
  }
  Wide<T>* copy = scratch<Wide<T>>(context, tensor.numel());
  if (copy == nullptr) return nullptr;
  int64_t next = 0;
  each_element(tensor, [&](int64_t at) { copy[next++] = static_cast<Wide<T>>(data[at]); });
  return copy;
}

// Where to compute a result in row-major order, and `finish` to bring it into the tensor.
template <typename T>
class Result {
 public:
  Result(Context& context, Tensor& tensor) : tensor_(tensor) {
    if constexpr (std::is_same_v<T, Wide<T>>) {
      if (is_row_major(tensor)) {
        data = mutable_data_of<T>(tensor);
        direct_ = true;
        return;
      }
    }
    data = scratch<Wide<T>>(context, tensor.numel());
  }
  // Rounds once where the tensor's type is narrower.
  void finish() {
    if (direct_) return;
    T* to = mutable_data_of<T>(tensor_);
    int64_t next = 0;
    each_element(tensor_, [&](int64_t at) { to[at] = static_cast<T>(data[next++]); });
  }

  // Null (and the call failed) when there is no memory for it.
  Wide<T>* data = nullptr;

 private:
  Tensor& tensor_;
  bool direct_ = false;
};

}  // namespace graphcheck::kernels
