#include "mini.h"

namespace torch {
namespace executor {

template <typename CTYPE>
void group_norm(const Tensor& input, const Tensor* weight, size_t leading, double eps, Tensor& out) {
  const size_t inner_size = input.numel() / leading;
  const CTYPE* input_data = input.const_data_ptr<CTYPE>();
  CTYPE* out_data = out.mutable_data_ptr<CTYPE>();
  for (const auto i : c10::irange(leading)) {
    const CTYPE* x = input_data + i * inner_size;

    float sum = reduce_add(x, static_cast<CTYPE>(inner_size));
    float squares = vec_powerf(x, static_cast<CTYPE>(inner_size));
    double average = static_cast<double>(sum) / static_cast<double>(inner_size);
    double spread = static_cast<double>(squares) / static_cast<double>(inner_size) -
        average * average;
    double root = std::sqrt(spread + eps);
    for (const auto j : c10::irange(inner_size)) {
      out_data[i * inner_size + j] = static_cast<CTYPE>((x[j] - average) / root);
    }
    (void)weight;
  }
}

void norm_groups(const Tensor& input, size_t leading, Tensor& out) {
  group_norm<float>(input, nullptr, leading, 1e-5, out);
}

}  // namespace executor
}  // namespace torch
