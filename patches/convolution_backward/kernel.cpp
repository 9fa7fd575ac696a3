// Gradients of convolutions that ExecuTorch's kernel up to 1.5.1 refuses or rounds away: one and
// three dims, transposed ones, half types (summed in float). With `fast`, of everything.
#include "../common/convolution.h"
#include "../common/fast.h"
#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// convolution_backward.out(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes,
//   SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding,
//   SymInt groups, bool[3] output_mask, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2)
enum : size_t {
  kGradient,
  kInput,
  kWeight,
  kBiasSizes,
  kStride,
  kTransposed = 7,
  kMask = 10,
  kOutInput,
  kOutWeight,
  kOutBias
};

OpFunction stock = nullptr;

template <typename T>
void run(Context& context, const Convolution& c, const Arguments& arguments,
         ArrayRef<bool> wanted) {
  using Sum = Wide<T>;
  const Sum* gradient = packed<T>(context, arguments.tensor(kGradient));
  if (gradient == nullptr) return;
  if (wanted[0]) {
    const Sum* weight = packed<T>(context, arguments.tensor(kWeight));
    Result<T> result(context, arguments.out(kOutInput));
    if (context.failure_state() != Error::Ok) return;
    if (c.transposed) {
      convolve(context, c, gradient, weight, result.data);
    } else {
      input_gradient(context, c, gradient, weight, result.data);
    }
    result.finish();
  }
  if (wanted[1] && context.failure_state() == Error::Ok) {
    const Sum* input = packed<T>(context, arguments.tensor(kInput));
    Result<T> result(context, arguments.out(kOutWeight));
    if (context.failure_state() != Error::Ok) return;
    if (c.transposed) {
      weight_gradient(context, c, input, gradient, result.data);
    } else {
      weight_gradient(context, c, gradient, input, result.data);
    }
    result.finish();
  }
  if (wanted[2] && context.failure_state() == Error::Ok) {
    Result<T> result(context, arguments.out(kOutBias));
    if (result.data == nullptr) return;
    const int64_t channels = c.transposed ? c.in_channels : c.out_channels;
    const int64_t places = c.transposed ? c.in_places() : c.out_places();
    for (int64_t k = 0; k < channels; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < c.batch; ++n) {
        const Sum* plane = gradient + (n * channels + k) * places;
        double sums[4] = {};
        int64_t i = 0;
        for (; i + 4 <= places; i += 4) {
          for (int lane = 0; lane < 4; ++lane) sums[lane] += static_cast<double>(plane[i + lane]);
        }
        for (; i < places; ++i) sum += static_cast<double>(plane[i]);
        sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
      }
      result.data[k] = static_cast<Sum>(sum);
    }
    result.finish();
  }
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& gradient = arguments.tensor(kGradient);
  const Tensor& input = arguments.tensor(kInput);
  const Tensor& weight = arguments.tensor(kWeight);
  const ScalarType type = input.scalar_type();
  const bool row_major = is_row_major(gradient) && is_row_major(input) && is_row_major(weight) &&
                         is_row_major(arguments.out(kOutInput)) &&
                         is_row_major(arguments.out(kOutWeight));
  // What the runtime computes right stays as it is, to the last bit.
  if (!kFastConvolution && stock != nullptr && input.dim() == 4 && !is_half_type(type) &&
      !arguments.flag(kTransposed) && row_major) {
    return stock(context, stack);
  }
  const auto wanted = arguments.value(kMask).toBoolList();
  GRAPHCHECK_CHECK(context, wanted.size() == 3, "output_mask has three values");
  Convolution c;
  if (!read_convolution(context, arguments, kStride, input, weight, &gradient, c)) return;
  GRAPHCHECK_CHECK(context, gradient.scalar_type() == type && weight.scalar_type() == type,
                   "grad_output, input and weight share a dtype");
  for (size_t i = 0; i < 3; ++i) {
    GRAPHCHECK_CHECK(context, !wanted[i] || arguments.out(kOutInput + i).scalar_type() == type,
                     "gradients have the dtype of what they are of");
  }
  GRAPHCHECK_CHECK(context, is_floating(type), "the dtype is a floating-point one");
  if ((wanted[0] && !resize_as(context, arguments.out(kOutInput), input)) ||
      (wanted[1] && !resize_as(context, arguments.out(kOutWeight), weight)) ||
      (wanted[2] && !resize(context, arguments.out(kOutBias), {gradient.size(1)}))) {
    return;
  }
  with_floating(type, [&](auto zero) { run<decltype(zero)>(context, c, arguments, wanted); });
}

void keys(Keys& keys) {
  for (const ScalarType type : kFloatingTypes) {
    for (size_t rank = 3; rank <= 5; ++rank) {
      for (const bool last : {false, true}) {
        if (last && rank != 4) continue;
        const Slot data = {type, {last ? channels_last(rank) : row_major(rank)}};
        const Slot gradient = rank == 4 ? either(type, rank) : data;
        for (const bool weight_last : {false, true}) {
          if (weight_last && rank != 4) continue;
          const Slot weight = {type, {weight_last ? channels_last(rank) : row_major(rank)}};
          // A gradient that is not wanted is an empty tensor of bytes.
          const Slot none = plain(ScalarType::Byte, 1);
          for (const Slot& first : {data, none}) {
            for (const Slot& second : {weight, none}) {
              for (const Slot& third : {plain(type, 1), none}) {
                keys.add({gradient, data, weight, first, second, third}, 3);
              }
            }
          }
        }
      }
    }
  }
}

void probe(Probe& probe) {
  const auto add = [&](ScalarType type, std::vector<int32_t> gradient, std::vector<int32_t> shape,
                       std::vector<int32_t> kernel, bool transposed) {
    const size_t dims = shape.size() - 2;
    probe.tensor(type, gradient, {1});
    probe.tensor(type, shape, {1});
    probe.tensor(type, kernel, {1});
    probe.none();
    for (const int64_t value : {1, 0, 1}) probe.integers(std::vector<int64_t>(dims, value));
    probe.flag(transposed);
    probe.integers(std::vector<int64_t>(dims, 0));
    probe.integer(1);
    probe.flags({true, true, true});
    probe.output(type, shape);
    probe.output(type, kernel);
    probe.output(type, {gradient[1]});
  };
  add(ScalarType::Float, {1, 1, 2}, {1, 1, 3}, {1, 1, 2}, false);
  probe.run(1e-6);
  add(ScalarType::Float, {1, 1, 3, 3}, {1, 1, 2, 2}, {1, 1, 2, 2}, true);
  probe.run(1e-6);
  add(ScalarType::BFloat16, {600, 1, 1, 1}, {600, 1, 1, 1}, {1, 1, 1, 1}, false);
  probe.run(1e-2);
}

const bool installed = install(
    {"aten::convolution_backward.out", kernel, keys, kFastConvolution ? nullptr : probe, &stock});

}  // namespace
}  // namespace graphcheck::kernels
