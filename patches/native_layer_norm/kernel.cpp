// Layer normalisation with a variance that does not cancel.
#include "../common/install.h"
#include "../common/moments.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// native_layer_norm.out(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias,
//   float eps, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2)
enum : size_t { kInput, kShape, kWeight, kBias, kEps, kOut, kMean, kRstd };

template <typename T>
void run(Context& context, const Arguments& arguments, int64_t length, Tensor& out, Tensor& mean,
         Tensor& rstd) {
  using Sum = Wide<T>;
  const Tensor* weight = arguments.optional(kWeight);
  const Tensor* bias = arguments.optional(kBias);
  const Sum* from = packed<T>(context, arguments.tensor(kInput));
  const Sum* gamma = weight == nullptr ? nullptr : packed<T>(context, *weight);
  const Sum* beta = bias == nullptr ? nullptr : packed<T>(context, *bias);
  Result<T> result(context, out), means(context, mean), rstds(context, rstd);
  if (context.failure_state() != Error::Ok) return;
  const double eps = arguments.number(kEps);
  const int64_t rows = out.numel() / length;
  for (int64_t row = 0; row < rows; ++row) {
    const Sum* given = from + row * length;
    Sum* to = result.data + row * length;
    const Moments found = moments(given, 1, 0, length);
    const double mean_of_row = found.mean, scale = 1 / std::sqrt(found.variance + eps);
    means.data[row] = static_cast<Sum>(mean_of_row);
    rstds.data[row] = static_cast<Sum>(scale);
    normalize(given, to, length, mean_of_row, scale, 0);
    if (gamma != nullptr) {
      for (int64_t i = 0; i < length; ++i) to[i] *= gamma[i];
    }
    if (beta != nullptr) {
      for (int64_t i = 0; i < length; ++i) to[i] += beta[i];
    }
  }
  result.finish();
  means.finish();
  rstds.finish();
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kInput);
  const auto shape = arguments.integers(kShape);
  Tensor& out = arguments.out(kOut);
  Tensor& mean = arguments.out(kMean);
  Tensor& rstd = arguments.out(kRstd);
  const auto inner = static_cast<ssize_t>(shape.size());
  GRAPHCHECK_CHECK(context, inner > 0 && inner <= input.dim(),
                   "normalized_shape has at least one dim, and no more than input");
  const ssize_t outer = input.dim() - inner;
  executorch::aten::SizesType sizes[kMaxDims];
  int64_t length = 1;
  for (ssize_t i = 0; i < input.dim(); ++i) {
    GRAPHCHECK_CHECK(context, i < outer || input.size(i) == shape[static_cast<size_t>(i - outer)],
                     "input ends in normalized_shape");
    if (i >= outer) length *= input.size(i);
    sizes[i] = static_cast<executorch::aten::SizesType>(i < outer ? input.size(i) : 1);
  }
  for (const size_t index : {kWeight, kBias}) {
    const Tensor* affine = arguments.optional(index);
    GRAPHCHECK_CHECK(context,
                     affine == nullptr || (affine->dim() == inner && affine->numel() == length &&
                                           affine->scalar_type() == input.scalar_type()),
                     "weight and bias have normalized_shape and input's dtype");
  }
  for (const Tensor* result : {&out, &mean, &rstd}) {
    GRAPHCHECK_CHECK(context, result->scalar_type() == input.scalar_type(),
                     "input and results share a dtype");
  }
  GRAPHCHECK_CHECK(context, is_floating(input.scalar_type()), "the dtype is a floating-point one");
  const auto rank = static_cast<size_t>(input.dim());
  if (!resize_as(context, out, input) || !resize(context, mean, sizes, rank) ||
      !resize(context, rstd, sizes, rank)) {
    return;
  }
  if (length == 0) return;
  with_floating(input.scalar_type(), [&](auto zero) {
    run<decltype(zero)>(context, arguments, length, out, mean, rstd);
  });
}

void keys(Keys& keys) {
  for (const ScalarType type : kFloatingTypes) {
    for (size_t rank = 1; rank <= 5; ++rank) {
      const Slot data = plain(type, rank);
      for (size_t inner = 1; inner <= rank && inner <= 3; ++inner) {
        const Slot affine = plain(type, inner);
        keys.add({data, affine, affine, data, data, data}, 3);
        keys.add({data, affine, data, data, data}, 3);
      }
      keys.add({data, data, data, data}, 3);
    }
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::Float, {1, 8}, {1000.1, 1000.2, 1000.3, 1000.4});
  probe.integers({8});
  probe.none();
  probe.none();
  probe.number(1e-5);
  probe.output(ScalarType::Float, {1, 8});
  probe.output(ScalarType::Float, {1, 1});
  probe.output(ScalarType::Float, {1, 1});
  probe.run(1e-3);
}

const bool installed = install({"aten::native_layer_norm.out", kernel, keys, probe});

}  // namespace
}  // namespace graphcheck::kernels
