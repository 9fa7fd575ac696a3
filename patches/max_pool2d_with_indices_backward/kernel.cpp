// The gradient of max pooling: each incoming value goes to where the maximum was.
// The kernel of ExecuTorch up to 1.5.1 adds to memory that nobody cleared; this one clears it.
#include "../common/install.h"
#include "../common/windows.h"

namespace graphcheck::kernels {
namespace {

// max_pool2d_with_indices_backward.grad_input(Tensor grad_output, Tensor self, int[2] kernel_size,
//   int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices, *,
//   Tensor(a!) grad_input)
enum : size_t { kGradOutput, kSelf, kKernel, kCeilMode = 6, kIndices, kGradInput };

// Adds one plane of gradients into `to`, whose element at row y, column x is at `y * row +
// x * column`. False at an index outside of the plane.
template <typename T, typename Sum>
bool spread(const Planes& from, const T* gradient, const Planes& places, const int64_t* index,
            int64_t columns, int64_t count, Sum* to, int64_t row, int64_t column) {
  const int64_t height = from.size[2], width = from.size[3];
  const auto limit = static_cast<uint64_t>(count);
  if (column == 1 && row == columns && from.stride[3] == 1 && from.stride[2] == width &&
      places.stride[3] == 1 && places.stride[2] == width) {
    for (int64_t i = 0; i < height * width; ++i) {
      const auto place = static_cast<uint64_t>(index[i]);
      if (place >= limit) return false;
      to[place] += static_cast<Sum>(gradient[i]);
    }
    return true;
  }
  for (int64_t y = 0; y < height; ++y) {
    const T* values = gradient + y * from.stride[2];
    const int64_t* at = index + y * places.stride[2];
    for (int64_t x = 0; x < width; ++x) {
      const int64_t place = at[x * places.stride[3]];
      if (static_cast<uint64_t>(place) >= limit) return false;
      to[(place / columns) * row + (place % columns) * column] +=
          static_cast<Sum>(values[x * from.stride[3]]);
    }
  }
  return true;
}

// `overlap` is whether windows share cells, so that a cell can take more than one value.
template <typename T>
bool run(Context& context, const Tensor& gradient, const Tensor& indices, bool overlap,
         Tensor& out) {
  const Planes from(gradient), places(indices), to(out);
  const T* values = data_of<T>(gradient);
  const int64_t* index = data_of<int64_t>(indices);
  T* result = mutable_data_of<T>(out);
  const int64_t columns = to.size[3], count = to.size[2] * columns;
  // Sums of half types are kept in float, one plane at a time, and rounded once.
  const bool direct = std::is_same_v<T, Wide<T>> || !overlap;
  const bool row_major = is_row_major(out);
  Wide<T>* plane = nullptr;
  if (direct && !row_major) {
    std::memset(result, 0, out.nbytes());
  } else if (!direct) {
    plane = scratch<Wide<T>>(context, count);
    if (plane == nullptr) return true;
  }
  for (int64_t n = 0; n < to.size[0]; ++n) {
    for (int64_t c = 0; c < to.size[1]; ++c) {
      const T* given = values + from.plane(n, c);
      const int64_t* at = index + places.plane(n, c);
      T* target = result + to.plane(n, c);
      if (direct) {
        // A plane that was just cleared is still near when it is written to.
        if (row_major) std::memset(target, 0, static_cast<size_t>(count) * sizeof(T));
        if (!spread(from, given, places, at, columns, count, target, to.stride[2], to.stride[3])) {
          return false;
        }
        continue;
      }
      std::memset(plane, 0, static_cast<size_t>(count) * sizeof(Wide<T>));
      if (!spread(from, given, places, at, columns, count, plane, columns, int64_t{1})) {
        return false;
      }
      if (row_major) {
        for (int64_t i = 0; i < count; ++i) target[i] = static_cast<T>(plane[i]);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        target[(i / columns) * to.stride[2] + (i % columns) * to.stride[3]] =
            static_cast<T>(plane[i]);
      }
    }
  }
  return true;
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& gradient = arguments.tensor(kGradOutput);
  const Tensor& input = arguments.tensor(kSelf);
  const Tensor& indices = arguments.tensor(kIndices);
  Tensor& out = arguments.out(kGradInput);
  Windows windows;
  if (!read_windows(context, arguments, kKernel, true, windows)) return;
  windows.ceil_mode = arguments.flag(kCeilMode);
  GRAPHCHECK_CHECK(context, is_image(input), "self has three or four dims, none empty");
  GRAPHCHECK_CHECK(context, fits(windows, input, gradient),
                   "grad_output has the shape that pooling gives");
  GRAPHCHECK_CHECK(context, same_shape(indices, gradient), "indices have the shape of grad_output");
  GRAPHCHECK_CHECK(context, indices.scalar_type() == ScalarType::Long, "indices are int64");
  GRAPHCHECK_CHECK(
      context,
      gradient.scalar_type() == input.scalar_type() && out.scalar_type() == input.scalar_type(),
      "grad_output, self and grad_input share a dtype");
  GRAPHCHECK_CHECK(context, is_floating(input.scalar_type()), "the dtype is a floating-point one");
  if (!resize_as(context, out, input)) return;
  bool overlap = false;
  for (int dim = 0; dim < 2; ++dim) {
    // Dilated windows interleave, but share no more cells than their reach says.
    const int64_t reach = windows.dilation[dim] * (windows.kernel[dim] - 1) + 1;
    overlap = overlap || windows.stride[dim] < reach;
  }
  bool inside = true;
  with_floating(input.scalar_type(), [&](auto zero) {
    inside = run<decltype(zero)>(context, gradient, indices, overlap, out);
  });
  GRAPHCHECK_CHECK(context, inside, "every index is inside of the plane");
}

void keys(Keys& keys) {
  for (const ScalarType type : kFloatingTypes) {
    for (const size_t rank : {3, 4}) {
      const Slot image = rank == 4 ? either(type, rank) : plain(type, rank);
      const Slot index = {ScalarType::Long, image.orders};
      keys.add({image, image, index, image});
    }
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::Float, {1, 2, 1, 2}, {1, 2, 3, 4});
  probe.tensor(ScalarType::Float, {1, 2, 2, 4}, {1});
  probe.integers({2, 2});
  probe.integers({2, 2});
  probe.integers({0, 0});
  probe.integers({1, 1});
  probe.flag(false);
  probe.tensor(ScalarType::Long, {1, 2, 1, 2}, {5, 2, 0, 7});
  probe.output(ScalarType::Float, {1, 2, 2, 4});
  probe.run(0);
}

const bool installed =
    install({"aten::max_pool2d_with_indices_backward.grad_input", kernel, keys, probe});

}  // namespace
}  // namespace graphcheck::kernels
