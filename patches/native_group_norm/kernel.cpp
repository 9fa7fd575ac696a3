// Group normalisation with a variance that does not cancel.
#include "../common/install.h"
#include "../common/moments.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// native_group_norm.out(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW,
//   int group, float eps, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2)
enum : size_t {
  kInput,
  kWeight,
  kBias,
  kBatch,
  kChannels,
  kPlane,
  kGroup,
  kEps,
  kOut,
  kMean,
  kRstd
};

template <typename T>
void run(Context& context, const Arguments& arguments, Tensor& out, Tensor& mean, Tensor& rstd) {
  using Sum = Wide<T>;
  const int64_t batch = arguments.integer(kBatch), channels = arguments.integer(kChannels);
  const int64_t plane = arguments.integer(kPlane), groups = arguments.integer(kGroup);
  const Tensor* weight = arguments.optional(kWeight);
  const Tensor* bias = arguments.optional(kBias);
  const Sum* from = packed<T>(context, arguments.tensor(kInput));
  const Sum* gamma = weight == nullptr ? nullptr : packed<T>(context, *weight);
  const Sum* beta = bias == nullptr ? nullptr : packed<T>(context, *bias);
  Result<T> result(context, out), means(context, mean), rstds(context, rstd);
  if (context.failure_state() != Error::Ok) return;
  const int64_t wide = channels / groups;
  const double eps = arguments.number(kEps);
  for (int64_t i = 0; i < batch * groups; ++i) {
    const int64_t start = i * wide * plane;
    const Moments found = moments(from + start, 1, 0, wide * plane);
    const double scale = 1 / std::sqrt(found.variance + eps);
    means.data[i] = static_cast<Sum>(found.mean);
    rstds.data[i] = static_cast<Sum>(scale);
    for (int64_t c = 0; c < wide; ++c) {
      const int64_t channel = (i % groups) * wide + c;
      const double factor = gamma == nullptr ? scale : scale * static_cast<double>(gamma[channel]);
      const double shift = beta == nullptr ? 0 : static_cast<double>(beta[channel]);
      const int64_t at = start + c * plane;
      normalize(from + at, result.data + at, plane, found.mean, factor, shift);
    }
  }
  result.finish();
  means.finish();
  rstds.finish();
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kInput);
  const int64_t batch = arguments.integer(kBatch), channels = arguments.integer(kChannels);
  const int64_t groups = arguments.integer(kGroup);
  Tensor& out = arguments.out(kOut);
  Tensor& mean = arguments.out(kMean);
  Tensor& rstd = arguments.out(kRstd);
  GRAPHCHECK_CHECK(context, input.dim() >= 2, "input has a batch and channels");
  GRAPHCHECK_CHECK(context, groups > 0 && channels > 0 && channels % groups == 0,
                   "the number of groups divides that of channels");
  GRAPHCHECK_CHECK(context, input.size(0) == batch && input.size(1) == channels,
                   "input has N and C as they are given");
  GRAPHCHECK_CHECK(context, input.numel() == batch * channels * arguments.integer(kPlane),
                   "input has N * C * HxW values");
  for (const size_t index : {kWeight, kBias}) {
    const Tensor* affine = arguments.optional(index);
    GRAPHCHECK_CHECK(context,
                     affine == nullptr || (has_shape(*affine, {channels}) &&
                                           affine->scalar_type() == input.scalar_type()),
                     "weight and bias have one value for each channel, of input's dtype");
  }
  for (const Tensor* result : {&out, &mean, &rstd}) {
    GRAPHCHECK_CHECK(context, result->scalar_type() == input.scalar_type(),
                     "input and results share a dtype");
  }
  GRAPHCHECK_CHECK(context, is_floating(input.scalar_type()), "the dtype is a floating-point one");
  if (!resize_as(context, out, input) || !resize(context, mean, {batch, groups}) ||
      !resize(context, rstd, {batch, groups})) {
    return;
  }
  with_floating(input.scalar_type(),
                [&](auto zero) { run<decltype(zero)>(context, arguments, out, mean, rstd); });
}

void keys(Keys& keys) {
  for (const ScalarType type : kFloatingTypes) {
    const Slot affine = plain(type, 1), moments = plain(type, 2);
    for (size_t rank = 2; rank <= 5; ++rank) {
      const Slot data = rank == 4 ? either(type, rank) : plain(type, rank);
      keys.add({data, affine, affine, data, moments, moments}, 3);
      keys.add({data, affine, data, moments, moments}, 3);
      keys.add({data, data, moments, moments}, 3);
    }
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::Float, {1, 2, 4}, {1000.1, 1000.2, 1000.3, 1000.4});
  probe.none();
  probe.none();
  for (const int64_t value : {1, 2, 4, 1}) probe.integer(value);
  probe.number(1e-5);
  probe.output(ScalarType::Float, {1, 2, 4});
  probe.output(ScalarType::Float, {1, 1});
  probe.output(ScalarType::Float, {1, 1});
  probe.run(1e-3);
}

const bool installed = install({"aten::native_group_norm.out", kernel, keys, probe});

}  // namespace
}  // namespace graphcheck::kernels
