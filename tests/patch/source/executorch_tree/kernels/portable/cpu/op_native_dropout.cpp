#include "mini.h"

namespace torch::executor::native {

template <typename T, typename Function>
void both(Function function, const Tensor& one, const Tensor& other, Tensor& out) {
  for (int64_t at = 0; at < one.numel(); ++at) {
    out.mutable_data_ptr<T>()[at] =
        function(one.const_data_ptr<T>()[at], static_cast<T>(other.const_data_ptr<bool>()[at]));
  }
}

void native_dropout_out(Context& ctx, const Tensor& input, double prob, bool train, Tensor& out,
                        Tensor& mask) {
  if (train && prob != 0) {
    {
      bool* keep = mask.mutable_data_ptr<bool>();
      for (int64_t at = 0; at < mask.numel(); ++at) {
        keep[at] = at % 2 == 0;
      }
    }
    SWITCH_FLOAT_TYPES(input.scalar_type(), ctx, "native_dropout.out", CTYPE_COMPUTE, [&]() {
      both<CTYPE_COMPUTE>(
          [](const CTYPE_COMPUTE val, const CTYPE_COMPUTE kept) {
            if (!kept) {
              return static_cast<CTYPE_COMPUTE>(0);
            }
            return val;
          },
          input, mask, out);
    });
  }
}

}  // namespace torch::executor::native
