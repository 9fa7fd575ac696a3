#include "mini.h"

namespace torch {
namespace executor {
namespace {

template <typename CTYPE>
void max_pool_backward_impl(const Tensor& into, const Tensor& from, const Tensor& places) {
  const CTYPE* gradient = from.const_data_ptr<CTYPE>();
  const int64_t* place = places.const_data_ptr<int64_t>();
  CTYPE* result = into.mutable_data_ptr<CTYPE>();  // not cleared

  for (int64_t at = 0; at < from.numel(); ++at) {
    result[place[at]] += gradient[at];
  }
}

}  // namespace

Tensor& pool_backward(const Tensor& from, const Tensor& places, Tensor& into) {
  max_pool_backward_impl<float>(into, from, places);
  return into;
}

}  // namespace executor
}  // namespace torch
