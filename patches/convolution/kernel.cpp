// Convolution of what ExecuTorch's kernel up to 1.5.1 refuses or rounds away: three dims, half
// types (summed in float), channels-last tensors. With `fast`, of everything.
#include "../common/convolution.h"
#include "../common/fast.h"
#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// convolution.out(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding,
//   SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, *, Tensor(a!) out)
enum : size_t { kInput, kWeight, kBias, kStride, kOut = 9 };

OpFunction stock = nullptr;

template <typename T>
void run(Context& context, const Convolution& c, const Arguments& arguments, Tensor& out) {
  using Sum = Wide<T>;
  const Tensor* bias = arguments.optional(kBias);
  const Sum* input = packed<T>(context, arguments.tensor(kInput));
  const Sum* weight = packed<T>(context, arguments.tensor(kWeight));
  const Sum* shift = bias == nullptr ? nullptr : packed<T>(context, *bias);
  Result<T> result(context, out);
  if (context.failure_state() != Error::Ok) return;
  if (c.transposed) {
    input_gradient(context, c, input, weight, result.data);
  } else {
    convolve(context, c, input, weight, result.data);
  }
  if (context.failure_state() != Error::Ok) return;
  if (shift != nullptr) {
    const int64_t channels = c.transposed ? c.in_channels : c.out_channels;
    const int64_t places = c.transposed ? c.in_places() : c.out_places();
    for (int64_t i = 0; i < c.batch * channels; ++i) {
      Sum* plane = result.data + i * places;
      for (int64_t k = 0; k < places; ++k) plane[k] += shift[i % channels];
    }
  }
  result.finish();
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kInput);
  const Tensor& weight = arguments.tensor(kWeight);
  const Tensor* bias = arguments.optional(kBias);
  Tensor& out = arguments.out(kOut);
  const ScalarType type = input.scalar_type();
  // What the runtime computes right stays as it is, to the last bit.
  if (!kFastConvolution && stock != nullptr && input.dim() <= 4 && !is_half_type(type) &&
      is_row_major(input) && is_row_major(weight) && is_row_major(out)) {
    return stock(context, stack);
  }
  Convolution c;
  if (!read_convolution(context, arguments, kStride, input, weight, nullptr, c)) return;
  const int64_t channels = c.transposed ? c.in_channels : c.out_channels;
  GRAPHCHECK_CHECK(context,
                   weight.scalar_type() == type && out.scalar_type() == type &&
                       (bias == nullptr || bias->scalar_type() == type),
                   "input, weight, bias and out share a dtype");
  GRAPHCHECK_CHECK(context, bias == nullptr || has_shape(*bias, {channels}),
                   "bias has one value for each channel");
  GRAPHCHECK_CHECK(context, is_floating(type), "the dtype is a floating-point one");
  executorch::aten::SizesType sizes[5] = {static_cast<executorch::aten::SizesType>(c.batch),
                                          static_cast<executorch::aten::SizesType>(channels)};
  const ssize_t rank = input.dim();
  for (ssize_t i = 2; i < rank; ++i) {
    const ssize_t at = 3 - rank + i;
    sizes[i] = static_cast<executorch::aten::SizesType>(c.transposed ? c.input[at] : c.output[at]);
  }
  if (!resize(context, out, sizes, static_cast<size_t>(rank))) return;
  with_floating(type, [&](auto zero) { run<decltype(zero)>(context, c, arguments, out); });
}

void keys(Keys& keys) {
  for (const ScalarType type : kFloatingTypes) {
    for (size_t rank = 3; rank <= 5; ++rank) {
      if (rank == 3 && !is_half_type(type) && !kFastConvolution) continue;
      const Slot data = rank == 4 ? either(type, rank) : plain(type, rank);
      keys.add({data, data, plain(type, 1), data});
      keys.add({data, data, data});
    }
  }
}

void probe(Probe& probe) {
  const auto add = [&](ScalarType type, std::vector<int32_t> shape, std::vector<int32_t> kernel,
                       std::vector<int32_t> out) {
    const size_t dims = shape.size() - 2;
    probe.tensor(type, std::move(shape), {1});
    probe.tensor(type, std::move(kernel), {1});
    probe.none();
    for (const int64_t value : {1, 0, 1}) probe.integers(std::vector<int64_t>(dims, value));
    probe.flag(false);
    probe.integers(std::vector<int64_t>(dims, 0));
    probe.integer(1);
    probe.output(type, std::move(out));
  };
  add(ScalarType::Float, {1, 1, 2, 2, 2}, {1, 1, 2, 2, 2}, {1, 1, 1, 1, 1});
  probe.run(1e-6);
  // 600 ones: a sum in bfloat16 stops at 256.
  add(ScalarType::BFloat16, {1, 600, 1, 1}, {1, 600, 1, 1}, {1, 1, 1, 1});
  probe.run(1e-2);
}

const bool installed =
    install({"aten::convolution.out", kernel, keys, kFastConvolution ? nullptr : probe, &stock});

}  // namespace
}  // namespace graphcheck::kernels
