// Normalisation by the statistics of the batch, with a variance that does not cancel.
#include "../common/install.h"
#include "../common/moments.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// _native_batch_norm_legit.no_stats_out(Tensor input, Tensor? weight, Tensor? bias, bool training,
//   float momentum, float eps, *, Tensor(a!) out, Tensor(b!) save_mean, Tensor(c!) save_invstd)
enum : size_t { kInput, kWeight, kBias, kTraining, kMomentum, kEps, kOut, kMean, kInvstd };

template <typename T>
void run(Context& context, const Arguments& arguments, Tensor& out, Tensor& mean, Tensor& invstd) {
  using Sum = Wide<T>;
  const Tensor& input = arguments.tensor(kInput);
  const Tensor* weight = arguments.optional(kWeight);
  const Tensor* bias = arguments.optional(kBias);
  const Sum* from = packed<T>(context, input);
  const Sum* gamma = weight == nullptr ? nullptr : packed<T>(context, *weight);
  const Sum* beta = bias == nullptr ? nullptr : packed<T>(context, *bias);
  Result<T> result(context, out), means(context, mean), scales(context, invstd);
  if (context.failure_state() != Error::Ok) return;
  const int64_t batch = input.size(0), channels = input.size(1);
  const int64_t plane = input.numel() / (batch * channels);
  const double eps = arguments.number(kEps);
  for (int64_t c = 0; c < channels; ++c) {
    const Moments found = moments(from + c * plane, batch, channels * plane, plane);
    const double scale = 1 / std::sqrt(found.variance + eps);
    means.data[c] = static_cast<Sum>(found.mean);
    scales.data[c] = static_cast<Sum>(scale);
    const double factor = gamma == nullptr ? scale : scale * static_cast<double>(gamma[c]);
    const double shift = beta == nullptr ? 0 : static_cast<double>(beta[c]);
    for (int64_t n = 0; n < batch; ++n) {
      const int64_t at = (n * channels + c) * plane;
      normalize(from + at, result.data + at, plane, found.mean, factor, shift);
    }
  }
  result.finish();
  means.finish();
  scales.finish();
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kInput);
  Tensor& out = arguments.out(kOut);
  Tensor& mean = arguments.out(kMean);
  Tensor& invstd = arguments.out(kInvstd);
  GRAPHCHECK_CHECK(context, arguments.flag(kTraining),
                   "without running statistics, training is on");
  GRAPHCHECK_CHECK(context, input.dim() >= 2 && input.numel() > 0,
                   "input has a batch and channels, and values");
  for (const size_t index : {kWeight, kBias}) {
    const Tensor* affine = arguments.optional(index);
    GRAPHCHECK_CHECK(context,
                     affine == nullptr || (has_shape(*affine, {input.size(1)}) &&
                                           affine->scalar_type() == input.scalar_type()),
                     "weight and bias have one value for each channel, of input's dtype");
  }
  for (const Tensor* result : {&out, &mean, &invstd}) {
    GRAPHCHECK_CHECK(context, result->scalar_type() == input.scalar_type(),
                     "input and results share a dtype");
  }
  GRAPHCHECK_CHECK(context, is_floating(input.scalar_type()), "the dtype is a floating-point one");
  if (!resize_as(context, out, input) || !resize(context, mean, {input.size(1)}) ||
      !resize(context, invstd, {input.size(1)})) {
    return;
  }
  with_floating(input.scalar_type(),
                [&](auto zero) { run<decltype(zero)>(context, arguments, out, mean, invstd); });
}

void keys(Keys& keys) {
  for (const ScalarType type : kFloatingTypes) {
    const Slot channel = plain(type, 1);
    for (size_t rank = 2; rank <= 5; ++rank) {
      const Slot data = rank == 4 ? either(type, rank) : plain(type, rank);
      keys.add({data, channel, channel, data, channel, channel}, 3);
      keys.add({data, channel, data, channel, channel}, 3);
      keys.add({data, data, channel, channel}, 3);
    }
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::Float, {2, 1, 4}, {1000.1, 1000.2, 1000.3, 1000.4});
  probe.none();
  probe.none();
  probe.flag(true);
  probe.number(0.1);
  probe.number(1e-5);
  probe.output(ScalarType::Float, {2, 1, 4});
  probe.output(ScalarType::Float, {1});
  probe.output(ScalarType::Float, {1});
  probe.run(1e-3);
}

const bool installed =
    install({"aten::_native_batch_norm_legit.no_stats_out", kernel, keys, probe});

}  // namespace
}  // namespace graphcheck::kernels
