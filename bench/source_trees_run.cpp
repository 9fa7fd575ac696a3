// Calls kernels of an ExecuTorch tree on inputs that show their faults: one line for each, its
// patch and what it computed. OPTIMIZED adds optimized kernels, NO_DROPOUT leaves dropout out.
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/platform/runtime.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

using executorch::aten::Half;
using executorch::aten::Scalar;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using Context = torch::executor::KernelRuntimeContext;
using Ints = executorch::aten::ArrayRef<int64_t>;
using MaybeTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor&, Tensor&, Tensor&>;

namespace torch {
namespace executor {
namespace native {
Tensor& max_pool2d_with_indices_backward_out(Context&, const Tensor&, const Tensor&, Ints, Ints,
                                             Ints, Ints, bool, const Tensor&, Tensor&);
std::tuple<Tensor&, Tensor&> native_dropout_out(Context&, const Tensor&, double,
                                                std::optional<bool>, Tensor&, Tensor&);
Three native_group_norm_out(Context&, const Tensor&, const MaybeTensor&, const MaybeTensor&,
                            int64_t, int64_t, int64_t, int64_t, double, Tensor&, Tensor&, Tensor&);
Three native_layer_norm_out(Context&, const Tensor&, Ints, const MaybeTensor&, const MaybeTensor&,
                            double, Tensor&, Tensor&, Tensor&);
Three opt_native_layer_norm_out(Context&, const Tensor&, Ints, const MaybeTensor&,
                                const MaybeTensor&, double, Tensor&, Tensor&, Tensor&);
Three _native_batch_norm_legit_no_stats_out(Context&, const Tensor&, const MaybeTensor&,
                                            const MaybeTensor&, bool, double, double, Tensor&,
                                            Tensor&, Tensor&);
Tensor& addmm_out(Context&, const Tensor&, const Tensor&, const Tensor&, const Scalar&,
                  const Scalar&, Tensor&);
Tensor& convolution_out(Context&, const Tensor&, const Tensor&, const MaybeTensor&, Ints, Ints,
                        Ints, bool, Ints, int64_t, Tensor&);
Tensor& cumsum_out(Context&, const Tensor&, int64_t, std::optional<ScalarType>, Tensor&);
Tensor& var_correction_out(Context&, const Tensor&, std::optional<Ints>,
                           const std::optional<Scalar>&, bool, Tensor&);
Tensor& flip_out(Context&, const Tensor&, Ints, Tensor&);
Tensor& opt_sum_dim_out(Context&, const Tensor&, std::optional<Ints>, bool,
                        std::optional<ScalarType>, Tensor&);
}  // namespace native
}  // namespace executor
}  // namespace torch

namespace native = torch::executor::native;

namespace {

// A tensor with room for any type; channels last where asked for, which takes four dims.
struct Box {
  std::vector<int32_t> sizes, strides;
  std::vector<uint8_t> order;
  std::vector<double> room;
  std::unique_ptr<TensorImpl> impl;
  Tensor tensor{nullptr};

  Box(ScalarType type, std::vector<int32_t> shape, bool channels_last = false)
      : sizes(shape), strides(shape.size(), 1), order(shape.size()) {
    for (size_t d = 0; d < shape.size(); ++d) order[d] = static_cast<uint8_t>(d);
    if (channels_last) order = {0, 2, 3, 1};
    int32_t run = 1;
    for (size_t at = shape.size(); at-- > 0;) {
      strides[order[at]] = run;
      run *= shape[order[at]];
    }
    room.assign(run + 1, 0.0);
    impl = std::make_unique<TensorImpl>(type, shape.size(), sizes.data(), room.data(), order.data(),
                                        strides.data());
    tensor = Tensor(impl.get());
  }
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(room.data());
  }
  template <typename T, typename Function>
  Box& fill(Function value) {
    for (int at = 0; at < tensor.numel(); ++at) data<T>()[at] = T(value(at));
    return *this;
  }
};

float one(int) { return 1; }
float far(int at) { return 10000.0f + (at % 2 ? 0.25f : -0.25f); }
float one_or_three(int at) { return at % 2 ? 3.0f : 1.0f; }

void tell(const char* patch, double value) { std::printf("%s %.6g\n", patch, value); }

Ints list(const std::vector<int64_t>& values) { return {values.data(), values.size()}; }

}  // namespace

int main() {
  executorch::runtime::runtime_init();
  Context context;
  const auto F = ScalarType::Float;
  const auto H = ScalarType::Half;
  const std::vector<int64_t> ones = {1, 1}, twos = {2, 2}, zeros = {0, 0}, dim_one = {1};
  {
    Box gradient(F, {1, 1, 2, 2}), in(F, {1, 1, 4, 4}), out(F, {1, 1, 4, 4});
    Box places(ScalarType::Long, {1, 1, 2, 2});
    gradient.fill<float>(one);
    out.fill<float>([](int) { return 7.0f; });
    places.fill<int64_t>([](int at) { return at * 2; });
    native::max_pool2d_with_indices_backward_out(context, gradient.tensor, in.tensor, list(twos),
                                                 list(twos), list(zeros), list(ones), false,
                                                 places.tensor, out.tensor);
    double total = 0;
    for (int at = 0; at < 16; ++at) total += out.data<float>()[at];
    tell("max_pool2d_with_indices_backward", total);
  }
#ifndef NO_DROPOUT
  {
    Box in(F, {64}), out(F, {64}), mask(ScalarType::Bool, {64});
    in.fill<float>(one);
    native::native_dropout_out(context, in.tensor, 0.75, true, out.tensor, mask.tensor);
    double most = 0;
    for (int at = 0; at < 64; ++at) most = std::fmax(most, out.data<float>()[at]);
    tell("native_dropout", most);
  }
#endif
  {
    Box in(F, {2, 2, 64}), out(F, {2, 2, 64}), mean(F, {2, 1}), inverse(F, {2, 1});
    in.fill<float>(far);
    native::native_group_norm_out(context, in.tensor, {}, {}, 2, 2, 64, 1, 1e-5, out.tensor,
                                  mean.tensor, inverse.tensor);
    tell("native_group_norm", out.data<float>()[1]);
    const std::vector<int64_t> normalized = {64};
    Box means(F, {2, 2, 1}), inverses(F, {2, 2, 1});
    native::native_layer_norm_out(context, in.tensor, list(normalized), {}, {}, 1e-5, out.tensor,
                                  means.tensor, inverses.tensor);
    tell("native_layer_norm", out.data<float>()[1]);
    Box channel_means(F, {2}), channel_inverses(F, {2});
    native::_native_batch_norm_legit_no_stats_out(context, in.tensor, {}, {}, true, 0.1, 1e-5,
                                                  out.tensor, channel_means.tensor,
                                                  channel_inverses.tensor);
    tell("native_batch_norm", out.data<float>()[1]);
  }
  {
    Box a(H, {2, 4096}), b(H, {4096, 3}), bias(H, {3}), out(H, {2, 3});
    a.fill<Half>(one);
    b.fill<Half>(one);
    native::addmm_out(context, bias.tensor, a.tensor, b.tensor, Scalar(1.0), Scalar(1.0),
                      out.tensor);
    tell("addmm", static_cast<float>(out.data<Half>()[4]));
  }
  {
    Box in(H, {1, 4096, 1, 1}), weight(H, {2, 4096, 1, 1}), out(H, {1, 2, 1, 1});
    in.fill<Half>(one);
    weight.fill<Half>(one);
    native::convolution_out(context, in.tensor, weight.tensor, {}, list(ones), list(zeros),
                            list(ones), false, list(zeros), 1, out.tensor);
    tell("convolution", static_cast<float>(out.data<Half>()[1]));
  }
  {
    Box in(H, {2, 4096, 2}), out(H, {2, 4096, 2});
    in.fill<Half>(one);
    native::cumsum_out(context, in.tensor, 1, {}, out.tensor);
    tell("cumsum", static_cast<float>(out.data<Half>()[2 * 4096 * 2 - 1]));
  }
  {
    Box in(H, {1, 4096}), out(H, {1});
    in.fill<Half>(one_or_three);
    native::var_correction_out(context, in.tensor, list(dim_one), Scalar(int64_t(1)), false,
                               out.tensor);
    tell("var", static_cast<float>(out.data<Half>()[0]));
  }
  {
    Box in(F, {1, 2, 2, 3}, true), out(F, {1, 2, 2, 3}, true);
    in.fill<float>([](int at) { return at; });
    native::flip_out(context, in.tensor, list(dim_one), out.tensor);
    int right = 0;  // channels are neighbours in memory: flipping swaps them
    for (int at = 0; at < 12; ++at) right += out.data<float>()[at] == static_cast<float>(at ^ 1);
    tell("flip", right);
  }
#ifdef OPTIMIZED
  {
    Box in(ScalarType::Double, {1, 3}), out(ScalarType::Double, {1});
    in.fill<double>([](int at) { return at == 1 ? 16777216.0 : 1.0; });
    native::opt_sum_dim_out(context, in.tensor, list(dim_one), false, {}, out.tensor);
    tell("sum_one_dim", out.data<double>()[0] - 16777216.0);
  }
  {
    const std::vector<int64_t> normalized = {512};
    Box in(H, {2, 512}), out(H, {2, 512}), mean(H, {2, 1}), inverse(H, {2, 1});
    Box weight(H, {512}), bias(H, {512});
    in.fill<Half>(one_or_three);
    weight.fill<Half>(one);
    native::opt_native_layer_norm_out(context, in.tensor, list(normalized), weight.tensor,
                                      bias.tensor, 1e-5, out.tensor, mean.tensor, inverse.tensor);
    tell("native_layer_norm_half", static_cast<float>(out.data<Half>()[0]));
  }
#endif
}
