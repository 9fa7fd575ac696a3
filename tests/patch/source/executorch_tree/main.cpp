// Runs every kernel of this tree once: one line for each, its name and what it computed.
#include <cstdio>

#include "kernels/optimized/cpu/op_native_layer_norm.cpp"
#include "kernels/optimized/cpu/op_sum.cpp"
#include "kernels/portable/cpu/op_convolution.cpp"
#include "kernels/portable/cpu/op_cumsum.cpp"
#include "kernels/portable/cpu/op_flip.cpp"
#include "kernels/portable/cpu/op_max_pool2d_with_indices_backward.cpp"
#include "kernels/portable/cpu/op_native_batch_norm.cpp"
#include "kernels/portable/cpu/op_native_dropout.cpp"
#include "kernels/portable/cpu/op_native_group_norm.cpp"
#include "kernels/portable/cpu/op_native_layer_norm.cpp"
#include "kernels/portable/cpu/op_var.cpp"
#include "kernels/portable/cpu/util/normalization_ops_util.h"
#include "kernels/portable/cpu/vec_ops.h"

#include "extension/training/optimizer/sgd.cpp"

using namespace torch::executor;

template <typename T>
Tensor filled(std::vector<int64_t> shape, ScalarType type, std::function<double(int64_t)> value) {
  Tensor tensor(shape, type);
  for (int64_t at = 0; at < tensor.numel(); ++at) {
    tensor.mutable_data_ptr<T>()[at] = T(value(at));
  }
  return tensor;
}

double far(int64_t at) { return 10000.0 + (at % 2 ? 0.25 : -0.25); }
double one(int64_t) { return 1; }

void tell(const char* name, double value) { std::printf("%s %.9g\n", name, value); }

int main() {
  const auto F = ScalarType::Float;
  const auto H = ScalarType::Half;
  Context context;
  {
    Tensor from = filled<float>({2}, F, one), into = filled<float>({4}, F, [](int64_t) { return 7; });
    Tensor places = filled<int64_t>({2}, ScalarType::Long, [](int64_t at) { return 2 * at; });
    pool_backward(from, places, into);
    double total = 0;
    for (int at = 0; at < 4; ++at) total += into.const_data_ptr<float>()[at];
    tell("max_pool2d_with_indices_backward", total);
  }
  {
    Tensor in = filled<float>({8}, F, one), out(in), mask(in);
    native::native_dropout_out(context, in, 0.75, true, out, mask);
    tell("native_dropout", out.const_data_ptr<float>()[0]);
  }
  Tensor wide = filled<float>({2, 64}, F, far);
  Tensor out(wide);
  norm_groups(wide, 2, out);
  tell("native_group_norm", out.const_data_ptr<float>()[1]);
  norm_rows(wide, out);
  tell("native_layer_norm", out.const_data_ptr<float>()[1]);
  layer_norm_scalar<float>(wide.const_data_ptr<float>(), out.mutable_data_ptr<float>(), 2, 64, 1e-5f);
  tell("native_layer_norm", out.const_data_ptr<float>()[1]);
  {
    Tensor mean({64}, F), inverse({64}, F);
    Tensor image = filled<float>({2, 1, 64}, F, far);
    _native_batch_norm_legit_no_stats_out(context, image, 1e-5, out, mean, inverse);
    tell("native_batch_norm", out.const_data_ptr<float>()[1]);
  }
  {
    Tensor ones = filled<Half>({1, 4096}, H, one), product({1, 1}, H), zero({1, 1}, H);
    const Half* all = ones.const_data_ptr<Half>();
    vec_addmm<Half, Half>(product.mutable_data_ptr<Half>(), zero.const_data_ptr<Half>(), all, all, 1,
                          4096, 1, Half(1), Half(1));
    tell("addmm", product.const_data_ptr<Half>()[0]);
    vec_matmul<Half>(product.mutable_data_ptr<Half>(), all, all, 1, 4096, 1);
    tell("addmm", product.const_data_ptr<Half>()[0]);
    convolve(all, all, product.mutable_data_ptr<Half>(), 1, 4096);
    tell("convolution", product.const_data_ptr<Half>()[0]);
    Tensor sums(ones);
    sum_up(ones, 1, sums);
    tell("cumsum", sums.const_data_ptr<Half>()[4095]);
    Tensor ends = filled<Half>({4096}, H, [](int64_t at) { return at % 2 ? 3 : 1; });
    variance(ends, product);
    tell("var", product.const_data_ptr<Half>()[0]);
  }
  {
    Tensor ends = filled<Half>({2, 256}, H, [](int64_t at) { return at % 2 ? 3 : 1; }), to(ends);
    optimized::layer_norm(ends.const_data_ptr<Half>(), to.mutable_data_ptr<Half>(), 2, 256, 1e-5f);
    tell("native_layer_norm_half", to.const_data_ptr<Half>()[0]);
  }
  {
    Tensor wide_numbers = filled<double>({3}, ScalarType::Double, [](int64_t at) {
      return at == 1 ? 16777216.0 : 1.0;
    });
    Tensor total({1}, ScalarType::Double);
    opt_sum_dim_out(wide_numbers, total);
    tell("sum_one_dim", total.const_data_ptr<double>()[0] - 16777216.0);
  }
  {
    Tensor in = filled<float>({2, 3}, F, [](int64_t at) { return at; }), flipped(in);
    in.steps = {1, 2};  // the first dim is the inner one
    flip(in, {true, false}, flipped);
    tell("flip", flipped.const_data_ptr<float>()[0]);
  }
  {
    Tensor half = filled<Half>({4}, H, one);
    tell("sgd_half_parameters", executorch::extension::step_once(half, half) == Error::InvalidArgument);
    Tensor whole = filled<float>({4}, F, one);
    tell("sgd_takes_float", executorch::extension::step_once(whole, whole) == Error::Ok);
  }
}
