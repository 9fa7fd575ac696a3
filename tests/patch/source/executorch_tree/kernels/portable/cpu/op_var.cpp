#include "mini.h"

namespace torch::executor {

template <typename IN, typename OUT, typename Map, typename Add>
OUT map_reduce(const Tensor& in, Map map, Add add) {
  OUT total = map(in.const_data_ptr<IN>()[0]);
  for (int64_t at = 1; at < in.numel(); ++at) {
    total = add(map(in.const_data_ptr<IN>()[at]), total);
  }
  return total;
}

template <typename CTYPE_IN, typename CTYPE_OUT>
void compute_variance(const Tensor& in, Tensor& out, size_t num, double denominator) {
  CTYPE_OUT* out_data = out.mutable_data_ptr<CTYPE_OUT>();
  for (const auto at : c10::irange(out.numel())) {
    CTYPE_OUT sum = map_reduce<CTYPE_IN, CTYPE_OUT>(
        in,
        [](CTYPE_IN v) { return static_cast<CTYPE_OUT>(v); },
        [](CTYPE_OUT one, CTYPE_OUT other) { return one + other; });
    CTYPE_OUT mean = sum / static_cast<CTYPE_OUT>(num);
    CTYPE_OUT squares = map_reduce<CTYPE_IN, CTYPE_OUT>(
        in,
        [mean](CTYPE_IN v) {
          return static_cast<CTYPE_OUT>((static_cast<CTYPE_OUT>(v) - mean) *
                                        (static_cast<CTYPE_OUT>(v) - mean));
        },
        [](CTYPE_OUT one, CTYPE_OUT other) { return one + other; });
    out_data[at] = squares / denominator;
  }
}

void variance(const Tensor& in, Tensor& out) {
  compute_variance<Half, Half>(in, out, in.numel(), in.numel() - 1);
}

}  // namespace torch::executor
