#include "mini.h"

namespace torch::executor {

template <typename CTYPE>
void layer_norm(const Tensor& input, CTYPE eps, Tensor& out) {
  const size_t normalized = input.size(input.dim() - 1);
  const size_t leading = input.numel() / normalized;
  const CTYPE* input_data = input.const_data_ptr<CTYPE>();
  CTYPE* out_data = out.mutable_data_ptr<CTYPE>();
  const CTYPE count = static_cast<CTYPE>(normalized);
  for (const auto i : c10::irange(leading)) {
    const CTYPE* x = input_data + i * normalized;
    CTYPE* y = out_data + i * normalized;

    CTYPE sum = reduce_add(x, count);
    CTYPE squares = vec_powerf(x, count);
    CTYPE average = sum / count;
    CTYPE spread = squares / count - average * average;
    CTYPE root = std::sqrt(spread + eps);
    for (const auto j : c10::irange(normalized)) {
      CTYPE w = 1;
      CTYPE b = 0;
      y[j] = (x[j] - average) / root * w + b;
    }
  }
}

void norm_rows(const Tensor& input, Tensor& out) {
  layer_norm<float>(input, 1e-5f, out);
}

}  // namespace torch::executor
