// The gradient of adaptive average pooling: windows of unequal size, which may overlap.
#include "../common/install.h"
#include "../common/pack.h"
#include "../common/windows.h"

namespace graphcheck::kernels {
namespace {

// _adaptive_avg_pool2d_backward.out(Tensor grad_output, Tensor self, *, Tensor(a!) out)
enum : size_t { kGradOutput, kSelf, kOut };

// Window `index` of `count` begins here; where it ends is rounded up instead of down.
int64_t begin_of(int64_t index, int64_t count, int64_t input) { return index * input / count; }
int64_t end_of(int64_t index, int64_t count, int64_t input) {
  return ((index + 1) * input + count - 1) / count;
}

template <typename T>
void run(Context& context, const Tensor& gradient, Tensor& out) {
  using Sum = Wide<T>;
  const Sum* from = packed<T>(context, gradient);
  Result<T> result(context, out);
  if (from == nullptr || result.data == nullptr) return;
  const Planes shape(out), given(gradient);
  const int64_t rows = shape.size[2], columns = shape.size[3];
  std::memset(result.data, 0, static_cast<size_t>(out.numel()) * sizeof(Sum));
  for (int64_t plane = 0; plane < shape.size[0] * shape.size[1]; ++plane) {
    Sum* to = result.data + plane * rows * columns;
    for (int64_t y = 0; y < given.size[2]; ++y) {
      const int64_t top = begin_of(y, given.size[2], rows);
      const int64_t bottom = end_of(y, given.size[2], rows);
      for (int64_t x = 0; x < given.size[3]; ++x) {
        const int64_t left = begin_of(x, given.size[3], columns);
        const int64_t right = end_of(x, given.size[3], columns);
        const Sum share = *from++ / static_cast<Sum>((bottom - top) * (right - left));
        for (int64_t i = top; i < bottom; ++i) {
          for (int64_t k = left; k < right; ++k) to[i * columns + k] += share;
        }
      }
    }
  }
  result.finish();
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& gradient = arguments.tensor(kGradOutput);
  const Tensor& input = arguments.tensor(kSelf);
  Tensor& out = arguments.out(kOut);
  GRAPHCHECK_CHECK(context, is_image(input), "self has three or four dims, none empty");
  GRAPHCHECK_CHECK(context, is_image(gradient) && gradient.dim() == input.dim(),
                   "grad_output has the dims of self, none empty");
  for (ssize_t i = 0; i < input.dim() - 2; ++i) {
    GRAPHCHECK_CHECK(context, gradient.size(i) == input.size(i),
                     "grad_output has the batch and the channels of self");
  }
  GRAPHCHECK_CHECK(
      context,
      gradient.scalar_type() == input.scalar_type() && out.scalar_type() == input.scalar_type(),
      "grad_output, self and out share a dtype");
  GRAPHCHECK_CHECK(context, is_floating(input.scalar_type()), "the dtype is a floating-point one");
  if (!resize_as(context, out, input)) return;
  with_floating(input.scalar_type(),
                [&](auto zero) { run<decltype(zero)>(context, gradient, out); });
}

const bool installed =
    install({"aten::_adaptive_avg_pool2d_backward.out", kernel, nullptr, nullptr});

}  // namespace
}  // namespace graphcheck::kernels
