// The gradient of max pooling: each incoming value goes to where the maximum was.
// The kernel of ExecuTorch up to 1.5.1 adds to memory that nobody cleared; this one clears it.
#include <algorithm>
#include <utility>

#include "../common/install.h"
#include "../common/windows.h"

namespace graphcheck::kernels {
namespace {

// max_pool2d_with_indices_backward.grad_input(Tensor grad_output, Tensor self, int[2] kernel_size,
//   int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices, *,
//   Tensor(a!) grad_input)
enum : size_t { kGradOutput, kSelf, kKernel, kCeilMode = 6, kIndices, kGradInput };

// Bytes cleared at a time: cells that were just cleared are in the first cache when they are added
// to. Larger or smaller is slower.
constexpr int64_t kChunk = 2048;
constexpr int64_t kLine = 64;

template <typename T>
void clear(T* cells, int64_t count) {
  std::memset(static_cast<void*>(cells), 0, sizeof(T) * static_cast<size_t>(count));
}

// Adds `value` to a cell. A cell of a half type that is still empty takes the value as it is: the
// two conversions of an addition cost more than all the rest.
template <typename T>
void add(T& cell, T value) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    cell += value;
  } else {
    cell = cell.x == 0 ? value : static_cast<T>(static_cast<float>(cell) + value);
  }
}

// Adds `count` values to cells below `limit`; how many of them, up to the first index beyond.
template <typename T>
int64_t add_below(uint64_t limit, const T* values, const int64_t* index, int64_t count, T* to) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const auto a = static_cast<uint64_t>(index[i]), b = static_cast<uint64_t>(index[i + 1]);
    const auto c = static_cast<uint64_t>(index[i + 2]), d = static_cast<uint64_t>(index[i + 3]);
    if (std::max(std::max(a, b), std::max(c, d)) >= limit) break;
    add(to[a], values[i]);
    add(to[b], values[i + 1]);
    add(to[c], values[i + 2]);
    add(to[d], values[i + 3]);
  }
  for (; i < count; ++i) {
    const auto place = static_cast<uint64_t>(index[i]);
    if (place >= limit) break;
    add(to[place], values[i]);
  }
  return i;
}

// The planes of a tensor without gaps: how many, cells of each, rows and columns of its windows;
// cells that the first row of windows reaches, and how many more each further row does.
struct Dense {
  int64_t planes, count, height, width, reach, step;
};

// Clears all planes and adds the gradients, clearing only as far ahead as the next windows reach.
// False at an index outside of its plane.
template <typename T>
bool scatter(const Dense& all, const T* values, const int64_t* index, T* to) {
  constexpr int64_t chunk = kChunk / static_cast<int64_t>(sizeof(T));
  const int64_t windows = all.height * all.width;
  if (all.count <= chunk) {
    const int64_t together = chunk / all.count;
    for (int64_t first = 0; first < all.planes; first += together) {
      const int64_t some = std::min(together, all.planes - first);
      clear(to, some * all.count);
      for (int64_t plane = 0; plane < some; ++plane) {
        const auto limit = static_cast<uint64_t>(all.count);
        if (add_below(limit, values, index, windows, to) < windows) return false;
        values += windows, index += windows, to += all.count;
      }
    }
    return true;
  }
  const int64_t rows = std::max<int64_t>(1, chunk / all.step);
  for (int64_t plane = 0; plane < all.planes; ++plane, to += all.count) {
    int64_t cleared = 0;
    const auto clear_to = [&](int64_t end) {
      if (end > cleared) clear(to + cleared, end - cleared);
      cleared = std::max(cleared, end);
    };
    for (int64_t y = 0; y < all.height; y += rows) {
      const int64_t some = std::min(rows, all.height - y), here = some * all.width;
      clear_to(std::min(all.count, all.reach + (y + some - 1) * all.step));
      const auto* ahead = reinterpret_cast<const char*>(to + cleared);
      const int64_t bytes = rows * all.step * static_cast<int64_t>(sizeof(T));
      for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(ahead + at, 1);
      const auto limit = static_cast<uint64_t>(cleared);
      const int64_t done = add_below(limit, values, index, here, to);
      if (done < here) {
        // No index that pooling gave is beyond its window, but one of somebody else may be.
        clear_to(all.count);
        const auto end = static_cast<uint64_t>(cleared);
        if (add_below(end, values + done, index + done, here - done, to) < here - done)
          return false;
      }
      values += here, index += here;
    }
    clear_to(all.count);
  }
  return true;
}

using Four = int32_t __attribute__((vector_size(16)));

#if __has_builtin(__builtin_shufflevector)
#define GRAPHCHECK_PICK __builtin_shufflevector
#else
#define GRAPHCHECK_PICK(a, b, ...) __builtin_shuffle(a, b, Four{__VA_ARGS__})
#endif

inline Four load(const void* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

inline void store(void* to, Four four) { std::memcpy(to, &four, sizeof four); }

// One plane under windows of 2 x 2 side by side: each window writes its four cells, so nothing has
// to be cleared, and four windows go at once. False at an index outside of its window.
inline bool write_pairs(const Dense& all, const float* values, const int64_t* index,
                        int64_t columns, float* to) {
  Four outside = {}, inside = ~outside;
  const auto below = static_cast<int32_t>(columns);
  for (int64_t y = 0; y < all.height; ++y, values += all.width, index += all.width) {
    float* upper = to + 2 * y * columns;
    float* lower = upper + columns;
    const auto base = static_cast<int32_t>(2 * y * columns);
    Four first = {base, base + 2, base + 4, base + 6};
    int64_t x = 0;
    for (; x + 4 <= all.width; x += 4, first += 8) {
      const Four one = load(index + x), two = load(index + x + 2), value = load(values + x);
      // Lower halves of the indices, whatever the order of bytes: only little endian is built for.
      const Four place = GRAPHCHECK_PICK(one, two, 0, 2, 4, 6) - first;
      outside |= one | two;
      const Four a = place == 0, b = place == 1, c = place == below, d = place == below + 1;
      inside &= (a | b) | (c | d);
      const Four va = a & value, vb = b & value, vc = c & value, vd = d & value;
      store(upper + 2 * x, GRAPHCHECK_PICK(va, vb, 0, 4, 1, 5));
      store(upper + 2 * x + 4, GRAPHCHECK_PICK(va, vb, 2, 6, 3, 7));
      store(lower + 2 * x, GRAPHCHECK_PICK(vc, vd, 0, 4, 1, 5));
      store(lower + 2 * x + 4, GRAPHCHECK_PICK(vc, vd, 2, 6, 3, 7));
    }
    for (; x < all.width; ++x) {
      const int64_t place = index[x] - 2 * (y * columns + x);
      const bool bottom = place >= columns;
      const int64_t side = bottom ? place - columns : place;
      if (side != 0 && side != 1) return false;
      upper[2 * x] = upper[2 * x + 1] = lower[2 * x] = lower[2 * x + 1] = 0;
      (bottom ? lower : upper)[2 * x + side] = values[x];
    }
    for (int64_t rest = 2 * all.width; rest < columns; ++rest) upper[rest] = lower[rest] = 0;
  }
  if (2 * all.height * columns < all.count) {
    clear(to + 2 * all.height * columns, all.count - 2 * all.height * columns);
  }
  const Four wrong = ~inside;
  return (wrong[0] | wrong[1] | wrong[2] | wrong[3] | outside[1] | outside[3]) == 0;
}

// Adds one plane of gradients into cleared memory, whose element at row y, column x is at `y * row
// + x * column`. False at an index outside of the plane.
template <typename T, typename Sum>
bool spread(const Planes& from, const T* gradient, const Planes& places, const int64_t* index,
            int64_t columns, int64_t count, Sum* to, int64_t row, int64_t column) {
  for (int64_t y = 0; y < from.size[2]; ++y) {
    const T* values = gradient + y * from.stride[2];
    const int64_t* at = index + y * places.stride[2];
    for (int64_t x = 0; x < from.size[3]; ++x) {
      const int64_t place = at[x * places.stride[3]];
      if (static_cast<uint64_t>(place) >= static_cast<uint64_t>(count)) return false;
      to[(place / columns) * row + (place % columns) * column] +=
          static_cast<Sum>(values[x * from.stride[3]]);
    }
  }
  return true;
}

// Gradients, indices and `out` without gaps, added in the dtype itself.
template <typename T>
bool run_dense(const Windows& windows, const Planes& from, const Planes& to, const T* values,
               const int64_t* index, T* out) {
  const int64_t columns = to.size[3], count = to.size[2] * columns;
  const int64_t reach = windows.dilation[0] * (windows.kernel[0] - 1) + 1;
  Dense all = {to.size[0] * to.size[1],
               count,
               from.size[2],
               from.size[3],
               (reach - windows.padding[0]) * columns,
               windows.stride[0] * columns};
  if constexpr (std::is_same_v<T, float>) {
    // A row of fewer windows costs more to set up than it saves.
    bool pairs = from.size[3] >= 8 && count <= std::numeric_limits<int32_t>::max();
    for (int dim = 0; dim < 2; ++dim) {
      pairs = pairs && windows.kernel[dim] == 2 && windows.stride[dim] == 2 &&
              windows.padding[dim] == 0 && windows.dilation[dim] == 1 &&
              2 * from.size[2 + dim] <= to.size[2 + dim];
    }
    if (pairs) {
      const int64_t each = all.height * all.width;
      const int64_t planes = std::exchange(all.planes, 1);
      for (int64_t plane = 0; plane < planes; ++plane) {
        if (!write_pairs(all, values, index, columns, out) && !scatter(all, values, index, out)) {
          return false;
        }
        values += each, index += each, out += count;
      }
      return true;
    }
  }
  return scatter(all, values, index, out);
}

template <typename T>
bool run(Context& context, const Tensor& gradient, const Tensor& indices, const Windows& windows,
         Tensor& out) {
  // Whether windows share cells, so that a cell can take more than one value. Dilated windows
  // interleave, but share no more cells than their reach says.
  bool overlap = false;
  for (int dim = 0; dim < 2; ++dim) {
    overlap =
        overlap || windows.stride[dim] < windows.dilation[dim] * (windows.kernel[dim] - 1) + 1;
  }
  const Planes from(gradient), places(indices), to(out);
  const T* values = data_of<T>(gradient);
  const int64_t* index = data_of<int64_t>(indices);
  T* result = mutable_data_of<T>(out);
  const int64_t columns = to.size[3], count = to.size[2] * columns;
  // Sums of half types are kept in float, one plane at a time, and rounded once.
  const bool direct = std::is_same_v<T, Wide<T>> || !overlap;
  const bool row_major = is_row_major(out);
  if (direct && row_major && is_row_major(gradient) && is_row_major(indices)) {
    return run_dense(windows, from, to, values, index, result);
  }
  Wide<T>* plane = nullptr;
  if (direct) {
    std::memset(static_cast<void*>(result), 0, out.nbytes());
  } else {
    plane = scratch<Wide<T>>(context, count);
    if (plane == nullptr) return true;
  }
  for (int64_t n = 0; n < to.size[0]; ++n) {
    for (int64_t c = 0; c < to.size[1]; ++c) {
      const T* given = values + from.plane(n, c);
      const int64_t* at = index + places.plane(n, c);
      T* target = result + to.plane(n, c);
      if (direct) {
        if (!spread(from, given, places, at, columns, count, target, to.stride[2], to.stride[3])) {
          return false;
        }
        continue;
      }
      clear(plane, count);
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
  bool inside = true;
  with_floating(input.scalar_type(), [&](auto zero) {
    inside = run<decltype(zero)>(context, gradient, indices, windows, out);
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
