#include "mini.h"

namespace torch::executor {

Tensor& sum_dim_out(const Tensor& in, Tensor& out) {
  out.mutable_data_ptr<double>()[0] = 0;
  for (int64_t at = 0; at < in.numel(); ++at) {
    out.mutable_data_ptr<double>()[0] += in.const_data_ptr<double>()[at];
  }
  return out;
}

Tensor& opt_sum_dim_out(const Tensor& in, Tensor& out) {
  const bool quick = in.dim() == 1 && in.scalar_type() == out.scalar_type() && in.numel() > 0;
  if (quick) {
    float total = 0;
    for (int64_t at = 0; at < in.numel(); ++at) {
      total += static_cast<float>(in.const_data_ptr<double>()[at]);
    }
    out.mutable_data_ptr<double>()[0] = total;
    return out;
  }
  return sum_dim_out(in, out);
}

}  // namespace torch::executor
