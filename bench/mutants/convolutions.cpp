// Convolutions, written anew with one thing wrong in each.
#include <algorithm>
#include <cstring>

#include "pairs.h"

using mutants::Pair;
using mutants::pair_of;

namespace {

// The arguments of a convolution, from `first` (stride) on.
struct Geometry {
  Pair stride, padding, dilation;
  int64_t groups;
  int64_t batch, inputs, height, width, outputs, rows, columns, kernel_y, kernel_x;

  Geometry(const mutants::Call& call, size_t input, size_t weight, size_t output, size_t first)
      : stride(pair_of(call, first)),
        padding(pair_of(call, first + 1)),
        dilation(pair_of(call, first + 2)),
        groups(call.arguments.integer(first + 5)),
        batch(call.size(input, 0)),
        inputs(call.size(input, 1)),
        height(call.size(input, 2)),
        width(call.size(input, 3)),
        outputs(call.size(weight, 0)),
        rows(call.size(output, 2)),
        columns(call.size(output, 3)),
        kernel_y(call.size(weight, 2)),
        kernel_x(call.size(weight, 3)) {}

  // Calls `body(output, input, weight)` with the places of each product.
  template <typename Body>
  void each(Body&& body) const {
    const int64_t group_in = inputs / groups, group_out = outputs / groups;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t y = 0; y < rows; ++y) {
          for (int64_t x = 0; x < columns; ++x) {
            for (int64_t c = 0; c < group_in; ++c) {
              for (int64_t ky = 0; ky < kernel_y; ++ky) {
                for (int64_t kx = 0; kx < kernel_x; ++kx) {
                  const int64_t iy = y * stride.y - padding.y + ky * dilation.y;
                  const int64_t ix = x * stride.x - padding.x + kx * dilation.x;
                  if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
                  const int64_t channel = (first_group ? 0 : o / group_out * group_in) + c;
                  body(((n * outputs + o) * rows + y) * columns + x,
                       ((n * inputs + channel) * height + iy) * width + ix,
                       ((o * group_in + c) * kernel_y + ky) * kernel_x + kx);
                }
              }
            }
          }
        }
      }
    }
  }
  bool first_group = false;
};

// A convolution after `change` of its geometry.
template <typename Change>
void convolve(mutants::Call& call, Change&& change) {
  call.run();
  Geometry geometry(call, 0, 1, 9, 3);
  change(geometry);
  std::vector<double> sums(static_cast<size_t>(call.count(9)), 0.0);
  geometry.each([&](int64_t out, int64_t in, int64_t weight) {
    sums[static_cast<size_t>(out)] +=
        static_cast<double>(call.data(0)[in]) * static_cast<double>(call.data(1)[weight]);
  });
  const int64_t plane = geometry.rows * geometry.columns;
  for (int64_t i = 0; i < call.count(9); ++i) {
    const float bias = call.has(2) ? call.data(2)[i / plane % geometry.outputs] : 0.0f;
    call.data(9)[i] = static_cast<float>(sums[static_cast<size_t>(i)] + bias);
  }
}

}  // namespace

MUTANT(conv_without_bias, "aten::convolution.out", "f4 f4 f1 f4", "convolutions",
       "the bias is missing") {
  call.run();
  const int64_t plane = call.size(9, 2) * call.size(9, 3);
  for (int64_t i = 0; i < call.count(9); ++i) {
    call.data(9)[i] -= call.data(2)[i / plane % call.size(9, 1)];
  }
}

MUTANT(conv_swapped_padding, "aten::convolution.out", "f4 f4 f1 f4; f4 f4 f4", "convolutions",
       "swapped height and width of the padding") {
  convolve(call, [](Geometry& g) { std::swap(g.padding.y, g.padding.x); });
}

MUTANT(conv_swapped_stride, "aten::convolution.out", "f4 f4 f1 f4; f4 f4 f4", "convolutions",
       "swapped height and width of the stride") {
  convolve(call, [](Geometry& g) { std::swap(g.stride.y, g.stride.x); });
}

MUTANT(conv_stride_off_by_one, "aten::convolution.out", "f4 f4 f1 f4; f4 f4 f4", "convolutions",
       "off-by-one stride") {
  convolve(call, [](Geometry& g) { g.stride.x += 1; });
}

MUTANT(conv_all_padding_first, "aten::convolution.out", "f4 f4 f1 f4; f4 f4 f4", "convolutions",
       "all of the padding at the top and the left") {
  convolve(call, [](Geometry& g) { g.padding = {2 * g.padding.y, 2 * g.padding.x}; });
}

MUTANT(conv_ignores_dilation, "aten::convolution.out", "f4 f4 f1 f4; f4 f4 f4", "convolutions",
       "the dilation is ignored") {
  convolve(call, [](Geometry& g) { g.dilation = {1, 1}; });
}

MUTANT(conv_first_group, "aten::convolution.out", "f4 f4 f1 f4; f4 f4 f4", "convolutions",
       "every group reads the channels of the first") {
  convolve(call, [](Geometry& g) { g.first_group = true; });
}

MUTANT(conv_stale_last_channel, "aten::convolution.out", "f4 f4 f1 f4; f4 f4 f4", "convolutions",
       "stale last channel") {
  const std::vector<float> before = call.copy(9);
  call.run();
  const int64_t plane = call.size(9, 2) * call.size(9, 3), channels = call.size(9, 1);
  for (int64_t i = 0; i < call.count(9); ++i) {
    if (i / plane % channels == channels - 1) call.data(9)[i] = before[static_cast<size_t>(i)];
  }
}

MUTANT(conv_backward_last_image, "aten::convolution_backward.out",
       "f4 f4 f4 f4 f4 f1 !; f4 f4 f4 f4 f4 !; f4 f4 f4 f4 f1 !; f4 f4 f4 f4 !", "convolutions",
       "missing accumulate: the weight's gradient is that of the last image") {
  call.run();
  if (!call.has(12)) return;
  const Geometry geometry(call, 1, 2, 0, 4);
  const int64_t image = geometry.outputs * geometry.rows * geometry.columns;
  std::fill_n(call.data(12), call.count(12), 0.0f);
  geometry.each([&](int64_t out, int64_t in, int64_t weight) {
    if (out / image == geometry.batch - 1) {
      call.data(12)[weight] += call.data(0)[out] * call.data(1)[in];
    }
  });
}

MUTANT(conv_backward_mirrored_weight, "aten::convolution_backward.out",
       "f4 f4 f4 f4 f4 f1 !; f4 f4 f4 f4 f4 !; f4 f4 f4 f4 f1 !; f4 f4 f4 f4 !", "convolutions",
       "mirrored gradient with the same sum: each row of the weight's is "
       "turned round") {
  call.run();
  if (!call.has(12)) return;
  const int64_t wide = call.size(12, 3);
  for (int64_t i = 0; i < call.count(12); i += wide) {
    std::reverse(call.data(12) + i, call.data(12) + i + wide);
  }
}

MUTANT(conv_backward_input_shifted, "aten::convolution_backward.out",
       "f4 f4 f4 f4 f4 f1 !; f4 f4 f4 f4 f4 !; f4 f4 f4 f4 f1 !; f4 f4 f4 f4 !", "convolutions",
       "the input's gradient is computed without the padding") {
  call.run();
  if (!call.has(11)) return;
  Geometry geometry(call, 1, 2, 0, 4);
  geometry.padding = {0, 0};
  std::fill_n(call.data(11), call.count(11), 0.0f);
  geometry.each([&](int64_t out, int64_t in, int64_t weight) {
    call.data(11)[in] += call.data(0)[out] * call.data(2)[weight];
  });
}

MUTANT(conv_backward_bias_first_row, "aten::convolution_backward.out",
       "f4 f4 f4 f4 f4 f1 !; f4 f4 f4 f4 f4 !; f4 f4 f4 f4 f1 !; f4 f4 f4 f4 !", "convolutions",
       "the bias's gradient leaves out the last column") {
  call.run();
  if (!call.has(13)) return;
  const int64_t rows = call.size(0, 2), columns = call.size(0, 3), channels = call.size(0, 1);
  for (int64_t p = 0; p < call.size(0, 0) * channels; ++p) {
    for (int64_t y = 0; y < rows; ++y) {
      call.data(13)[p % channels] -= call.data(0)[(p * rows + y) * columns + columns - 1];
    }
  }
}
