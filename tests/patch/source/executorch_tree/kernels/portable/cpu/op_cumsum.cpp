#include "mini.h"

namespace torch::executor {

template <typename CTYPE_OUT, typename Load>
void cumsum_tensors(const Tensor& self, Load load_self, int64_t dim, Tensor& out) {
  const char* const from = reinterpret_cast<const char*>(self.const_data_ptr());
  CTYPE_OUT* into = out.mutable_data_ptr<CTYPE_OUT>();
  const size_t length = static_cast<size_t>(self.size(dim));
  const size_t rows = getLeadingDims(self, dim);
  const size_t columns = getTrailingDims(self, dim);

  for (size_t i = 0; i < rows; i++) {
    size_t start = i * columns * length;
    for (size_t c = 0; c < columns; c++) {
      into[start + c] = load_self(&from[(start + c) * self.element_size()]);
    }
    for (size_t j = 1; j < length; j++) {
      for (size_t c = 0; c < columns; c++) {
        size_t at = start + j * columns + c;
        into[at] = load_self(&from[at * self.element_size()]) + into[at - columns];
      }
    }
  }
}

void sum_up(const Tensor& self, int64_t dim, Tensor& out) {
  cumsum_tensors<Half>(
      self, [](const char* at) { return *reinterpret_cast<const Half*>(at); }, dim, out);
}

}  // namespace torch::executor
