#include "mini.h"

namespace torch {
namespace executor {

void _native_batch_norm_legit_no_stats_out(Context& ctx, const Tensor& in, double eps, Tensor& out,
                                           Tensor& mean_out, Tensor& invstd_out) {
  size_t N = in.size(0);
  size_t C = in.size(1);
  size_t inner = getTrailingDims(in, 1);
  size_t elements = N * inner;

  SWITCH_FLOAT_TYPES(in.scalar_type(), ctx, "no_stats_out", CTYPE, [&] {
    const CTYPE* in_data = in.const_data_ptr<CTYPE>();
    CTYPE* out_data = out.mutable_data_ptr<CTYPE>();
    CTYPE* means = mean_out.mutable_data_ptr<CTYPE>();
    CTYPE* inverses = invstd_out.mutable_data_ptr<CTYPE>();
    for (size_t c = 0; c < C; ++c) {
      means[c] = inverses[c] = CTYPE(0);
    }

    for (size_t b = 0; b < N; ++b) {
      const CTYPE* rows = in_data + b * C * inner;
      for (size_t c = 0; c < C; ++c) {
        const CTYPE* x = rows + c * inner;
        means[c] += reduce_add(x, inner);
        inverses[c] += vec_powerf(x, inner);
      }
    }
    const CTYPE count = static_cast<CTYPE>(elements);
    for (size_t c = 0; c < C; ++c) {
      CTYPE mean = means[c] / count;
      CTYPE var = inverses[c] / count - mean * mean;
      CTYPE invstd = 1.0 / std::sqrt(var + eps);
      means[c] = mean;
      inverses[c] = invstd;
    }
    for (size_t at = 0; at < N * C * inner; ++at) {
      const size_t c = at / inner % C;
      out_data[at] = (in_data[at] - means[c]) * inverses[c];
    }
  });
}

}  // namespace executor
}  // namespace torch
