// Windows that slide over height and width: their arguments and the size of what they give.
#pragma once

#include "kernel.h"

namespace graphcheck::kernels {

// Sizes and strides of a [N, C, H, W] tensor, or of [C, H, W] as one with N = 1.
struct Planes {
  int64_t size[4];
  int64_t stride[4];

  explicit Planes(const Tensor& tensor) {
    const ssize_t missing = 4 - tensor.dim();
    for (ssize_t i = 0; i < 4; ++i) {
      size[i] = i < missing ? 1 : tensor.size(i - missing);
      stride[i] = i < missing ? 0 : tensor.strides()[i - missing];
    }
  }
  int64_t plane(int64_t n, int64_t c) const { return n * stride[0] + c * stride[1]; }
};

// Kernel size, stride, padding and dilation along height and width.
struct Windows {
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t padding[2] = {0, 0};
  int64_t dilation[2] = {1, 1};
  bool ceil_mode = false;

  // How many windows fit along `dim`; with `ceil_mode` the last may hang over, unless it would
  // start beyond the input and its padding.
  int64_t count(int64_t input, int dim) const {
    const int64_t reach = dilation[dim] * (kernel[dim] - 1) + 1;
    const int64_t room = input + 2 * padding[dim] - reach;
    if (room < 0) return 0;
    int64_t windows = room / stride[dim] + 1;
    if (ceil_mode && room % stride[dim] != 0 && windows * stride[dim] < input + padding[dim]) {
      ++windows;
    }
    return windows;
  }
};

// One value for both dims, or one for each; false for another length.
inline bool read_pair(ArrayRef<int64_t> list, int64_t (&pair)[2]) {
  if (list.size() != 1 && list.size() != 2) return false;
  pair[0] = list[0];
  pair[1] = list[list.size() - 1];
  return true;
}

// Reads the arguments kernel_size, stride (none: as the kernel) and padding from `first` on, and
// dilation after them if there is one.
inline bool read_windows(Context& context, const Arguments& arguments, size_t first, bool dilated,
                         Windows& windows) {
  GRAPHCHECK_REQUIRE(context, read_pair(arguments.integers(first), windows.kernel),
                     "kernel_size holds one or two values");
  const auto stride = arguments.integers(first + 1);
  GRAPHCHECK_REQUIRE(context,
                     read_pair(stride.empty() ? arguments.integers(first) : stride, windows.stride),
                     "stride holds none, one or two values");
  GRAPHCHECK_REQUIRE(context, read_pair(arguments.integers(first + 2), windows.padding),
                     "padding holds one or two values");
  if (dilated) {
    GRAPHCHECK_REQUIRE(context, read_pair(arguments.integers(first + 3), windows.dilation),
                       "dilation holds one or two values");
  }
  for (int dim = 0; dim < 2; ++dim) {
    GRAPHCHECK_REQUIRE(
        context, windows.kernel[dim] > 0 && windows.stride[dim] > 0 && windows.dilation[dim] > 0,
        "kernel_size, stride and dilation are above zero");
    GRAPHCHECK_REQUIRE(context,
                       windows.padding[dim] >= 0 && windows.padding[dim] <= windows.kernel[dim] / 2,
                       "padding is at most half of kernel_size");
  }
  return true;
}

// A batch of images or one image, with no dim empty but the batch.
inline bool is_image(const Tensor& tensor) {
  if (tensor.dim() != 3 && tensor.dim() != 4) return false;
  for (ssize_t i = tensor.dim() == 4 ? 1 : 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) return false;
  }
  return true;
}

// Whether `gradient` has the shape of what the windows give on `input`.
inline bool fits(const Windows& windows, const Tensor& input, const Tensor& gradient) {
  if (gradient.dim() != input.dim()) return false;
  const ssize_t rank = input.dim();
  for (ssize_t i = 0; i < rank - 2; ++i) {
    if (gradient.size(i) != input.size(i)) return false;
  }
  return gradient.size(rank - 2) == windows.count(input.size(rank - 2), 0) &&
         gradient.size(rank - 1) == windows.count(input.size(rank - 1), 1);
}

}  // namespace graphcheck::kernels
