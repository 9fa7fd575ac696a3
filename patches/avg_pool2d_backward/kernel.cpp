// The gradient of average pooling: each window hands its share back to every cell it covers.
#include <algorithm>

#include "../common/install.h"
#include "../common/pack.h"
#include "../common/windows.h"

namespace graphcheck::kernels {
namespace {

// avg_pool2d_backward.grad_input(Tensor grad_output, Tensor self, int[2] kernel_size,
//   int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad,
//   int? divisor_override, *, Tensor(a!) grad_input)
enum : size_t { kGradOutput, kSelf, kKernel, kCeilMode = 5, kCountPad, kDivisor, kGradInput };

// The cells of one window along one dim, and its length with the padding it covers.
struct Stretch {
  int64_t begin, end, padded;

  Stretch(const Windows& windows, int dim, int64_t index, int64_t input) {
    const int64_t start = index * windows.stride[dim] - windows.padding[dim];
    const int64_t stop = std::min(start + windows.kernel[dim], input + windows.padding[dim]);
    padded = stop - start;
    begin = std::max<int64_t>(start, 0);
    end = std::min(stop, input);
  }
};

template <typename T>
void run(Context& context, const Windows& windows, const Tensor& gradient, bool count_pad,
         int64_t divisor, Tensor& out) {
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
      const Stretch down(windows, 0, y, rows);
      for (int64_t x = 0; x < given.size[3]; ++x) {
        const Stretch along(windows, 1, x, columns);
        int64_t count = divisor;
        if (count == 0) {
          count = count_pad ? down.padded * along.padded
                            : (down.end - down.begin) * (along.end - along.begin);
        }
        const Sum share = *from++ / static_cast<Sum>(count);
        for (int64_t i = down.begin; i < down.end; ++i) {
          Sum* row = to + i * columns;
          for (int64_t k = along.begin; k < along.end; ++k) row[k] += share;
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
  Tensor& out = arguments.out(kGradInput);
  Windows windows;
  if (!read_windows(context, arguments, kKernel, false, windows)) return;
  windows.ceil_mode = arguments.flag(kCeilMode);
  const int64_t divisor = arguments.has(kDivisor) ? arguments.integer(kDivisor) : 0;
  GRAPHCHECK_CHECK(context, !arguments.has(kDivisor) || divisor != 0,
                   "divisor_override is not zero");
  GRAPHCHECK_CHECK(context, is_image(input), "self has three or four dims, none empty");
  GRAPHCHECK_CHECK(context, fits(windows, input, gradient),
                   "grad_output has the shape that pooling gives");
  GRAPHCHECK_CHECK(
      context,
      gradient.scalar_type() == input.scalar_type() && out.scalar_type() == input.scalar_type(),
      "grad_output, self and grad_input share a dtype");
  GRAPHCHECK_CHECK(context, is_floating(input.scalar_type()), "the dtype is a floating-point one");
  if (!resize_as(context, out, input)) return;
  with_floating(input.scalar_type(), [&](auto zero) {
    run<decltype(zero)>(context, windows, gradient, arguments.flag(kCountPad), divisor, out);
  });
}

const bool installed = install({"aten::avg_pool2d_backward.grad_input", kernel, nullptr, nullptr});

}  // namespace
}  // namespace graphcheck::kernels
