// Batch normalisation in training: batch statistics, the running ones that follow, and gradients.
#include "../common/install.h"
#include "../common/moments.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// graphcheck::batch_norm_training.out(Tensor input, Tensor? weight, Tensor? bias,
//   Tensor running_mean, Tensor running_var, float momentum, float eps, *,
//   Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2, Tensor(d!) out3, Tensor(e!) out4)
namespace forward {
enum : size_t {
  kInput,
  kWeight,
  kBias,
  kRunningMean,
  kRunningVar,
  kMomentum,
  kEps,
  kOut,
  kMean,
  kInvstd,
  kNewMean,
  kNewVar,
};
}  // namespace forward

// graphcheck::batch_norm_training_backward.out(Tensor grad_out, Tensor input, Tensor? weight,
//   Tensor save_mean, Tensor save_invstd, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2)
namespace backward {
enum : size_t {
  kGradient,
  kInput,
  kWeight,
  kMean,
  kInvstd,
  kGradInput,
  kGradWeight,
  kGradBias,
};
}  // namespace backward

struct Sizes {
  int64_t batch;
  int64_t channels;
  int64_t plane;
};

Sizes sizes_of(const Tensor& input) {
  Sizes sizes{input.size(0), input.size(1), 1};
  for (ssize_t i = 2; i < input.dim(); ++i) sizes.plane *= input.size(i);
  return sizes;
}

// Every tensor of a call but the first is null, or has one value for each channel, in its dtype.
bool per_channel(Context& context, const Tensor& input, const Arguments& arguments,
                 std::initializer_list<size_t> indices) {
  GRAPHCHECK_REQUIRE(context, input.dim() >= 2, "input has a batch and channels");
  GRAPHCHECK_REQUIRE(context, is_floating(input.scalar_type()),
                     "the dtype is a floating-point one");
  for (const size_t index : indices) {
    const Tensor* tensor = arguments.optional(index);
    GRAPHCHECK_REQUIRE(context,
                       tensor == nullptr || (has_shape(*tensor, {input.size(1)}) &&
                                             tensor->scalar_type() == input.scalar_type()),
                       "the tensors of channels have one value for each, of input's dtype");
  }
  return true;
}

bool results(Context& context, const Tensor& input, const Arguments& arguments, size_t whole,
             std::initializer_list<size_t> channels) {
  GRAPHCHECK_REQUIRE(context, arguments.out(whole).scalar_type() == input.scalar_type(),
                     "input and results share a dtype");
  if (!resize_as(context, arguments.out(whole), input)) return false;
  for (const size_t index : channels) {
    GRAPHCHECK_REQUIRE(context, arguments.out(index).scalar_type() == input.scalar_type(),
                       "input and results share a dtype");
    if (!resize(context, arguments.out(index), {input.size(1)})) return false;
  }
  return true;
}

template <typename T>
void normalise(Context& context, const Arguments& arguments, const Sizes& sizes) {
  using namespace forward;
  using Sum = Wide<T>;
  const Tensor* weight = arguments.optional(kWeight);
  const Tensor* bias = arguments.optional(kBias);
  const Sum* from = packed<T>(context, arguments.tensor(kInput));
  const Sum* gamma = weight == nullptr ? nullptr : packed<T>(context, *weight);
  const Sum* beta = bias == nullptr ? nullptr : packed<T>(context, *bias);
  const Sum* old_mean = packed<T>(context, arguments.tensor(kRunningMean));
  const Sum* old_var = packed<T>(context, arguments.tensor(kRunningVar));
  Result<T> out(context, arguments.out(kOut)), means(context, arguments.out(kMean));
  Result<T> invstds(context, arguments.out(kInvstd));
  Result<T> new_mean(context, arguments.out(kNewMean)), new_var(context, arguments.out(kNewVar));
  if (context.failure_state() != Error::Ok) return;
  const double momentum = arguments.number(kMomentum), eps = arguments.number(kEps);
  const auto count = static_cast<double>(sizes.batch * sizes.plane);
  const int64_t image = sizes.channels * sizes.plane;
  for (int64_t c = 0; c < sizes.channels; ++c) {
    const Sum* channel = from + c * sizes.plane;
    const Moments found = moments(channel, sizes.batch, image, sizes.plane);
    const double inverse = 1 / std::sqrt(found.variance + eps);
    const double scale = gamma == nullptr ? inverse : inverse * static_cast<double>(gamma[c]);
    const double shift = beta == nullptr ? 0 : static_cast<double>(beta[c]);
    // One value has no unbiased variance: 0 / 0, as in eager.
    const double unbiased = found.variance * count / (count - 1);
    means.data[c] = static_cast<Sum>(found.mean);
    invstds.data[c] = static_cast<Sum>(inverse);
    new_mean.data[c] =
        static_cast<Sum>((1 - momentum) * static_cast<double>(old_mean[c]) + momentum * found.mean);
    new_var.data[c] =
        static_cast<Sum>((1 - momentum) * static_cast<double>(old_var[c]) + momentum * unbiased);
    for (int64_t n = 0; n < sizes.batch; ++n) {
      const int64_t at = n * image + c * sizes.plane;
      normalize(from + at, out.data + at, sizes.plane, found.mean, scale, shift);
    }
  }
  out.finish();
  for (Result<T>* result : {&means, &invstds, &new_mean, &new_var}) result->finish();
}

void forward_kernel(Context& context, Stack stack) {
  using namespace forward;
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kInput);
  if (!per_channel(context, input, arguments, {kWeight, kBias, kRunningMean, kRunningVar}) ||
      !results(context, input, arguments, kOut, {kMean, kInvstd, kNewMean, kNewVar})) {
    return;
  }
  with_floating(input.scalar_type(),
                [&](auto zero) { normalise<decltype(zero)>(context, arguments, sizes_of(input)); });
}

template <typename T>
void differentiate(Context& context, const Arguments& arguments, const Sizes& sizes) {
  using namespace backward;
  using Sum = Wide<T>;
  const Tensor* weight = arguments.optional(kWeight);
  const Sum* gradient = packed<T>(context, arguments.tensor(kGradient));
  const Sum* from = packed<T>(context, arguments.tensor(kInput));
  const Sum* gamma = weight == nullptr ? nullptr : packed<T>(context, *weight);
  const Sum* means = packed<T>(context, arguments.tensor(kMean));
  const Sum* invstds = packed<T>(context, arguments.tensor(kInvstd));
  Result<T> by_input(context, arguments.out(kGradInput));
  Result<T> by_weight(context, arguments.out(kGradWeight));
  Result<T> by_bias(context, arguments.out(kGradBias));
  if (context.failure_state() != Error::Ok) return;
  const auto count = static_cast<double>(sizes.batch * sizes.plane);
  const int64_t image = sizes.channels * sizes.plane;
  for (int64_t c = 0; c < sizes.channels; ++c) {
    const auto mean = static_cast<double>(means[c]), inverse = static_cast<double>(invstds[c]);
    double sum = 0, product = 0;
    for (int64_t n = 0; n < sizes.batch; ++n) {
      const Sum* g = gradient + n * image + c * sizes.plane;
      const Sum* x = from + n * image + c * sizes.plane;
      sum += add_up(sizes.plane, [g](int64_t i) { return static_cast<double>(g[i]); });
      product += add_up(sizes.plane, [g, x, mean](int64_t i) {
        return static_cast<double>(g[i]) * (static_cast<double>(x[i]) - mean);
      });
    }
    by_weight.data[c] = static_cast<Sum>(product * inverse);
    by_bias.data[c] = static_cast<Sum>(sum);
    const double scale = gamma == nullptr ? inverse : inverse * static_cast<double>(gamma[c]);
    const double average = sum / count, slope = product * inverse * inverse / count;
    for (int64_t n = 0; n < sizes.batch; ++n) {
      const int64_t at = n * image + c * sizes.plane;
      for (int64_t i = at; i < at + sizes.plane; ++i) {
        const double flow = static_cast<double>(gradient[i]) - average -
                            (static_cast<double>(from[i]) - mean) * slope;
        by_input.data[i] = static_cast<Sum>(flow * scale);
      }
    }
  }
  for (Result<T>* result : {&by_input, &by_weight, &by_bias}) result->finish();
}

void backward_kernel(Context& context, Stack stack) {
  using namespace backward;
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kInput);
  if (!per_channel(context, input, arguments, {kWeight, kMean, kInvstd})) return;
  GRAPHCHECK_CHECK(context,
                   same_shape(arguments.tensor(kGradient), input) &&
                       arguments.tensor(kGradient).scalar_type() == input.scalar_type(),
                   "grad_out has the shape and dtype of input");
  if (!results(context, input, arguments, kGradInput, {kGradWeight, kGradBias})) return;
  with_floating(input.scalar_type(), [&](auto zero) {
    differentiate<decltype(zero)>(context, arguments, sizes_of(input));
  });
}

const bool installed =
    install({"graphcheck::batch_norm_training.out", forward_kernel, nullptr, nullptr}) &&
    install({"graphcheck::batch_norm_training_backward.out", backward_kernel, nullptr, nullptr});

}  // namespace
}  // namespace graphcheck::kernels
