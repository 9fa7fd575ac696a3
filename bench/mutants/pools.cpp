// Pools, written anew with one thing wrong in each.
#include <algorithm>
#include <cstring>
#include <vector>

#include "pairs.h"

using mutants::Pair;
using mutants::pair_of;

namespace {

// A pool's arguments from `first` (kernel size) on.
struct Pool {
  Pair kernel, stride, padding;
  int64_t planes, height, width, rows, columns;

  Pool(const mutants::Call& call, size_t input, size_t output, size_t first)
      : kernel(pair_of(call, first)),
        stride(pair_of(call, first + 1, kernel)),
        padding(pair_of(call, first + 2)),
        planes(call.size(input, 0) * call.size(input, 1)),
        height(call.size(input, 2)),
        width(call.size(input, 3)),
        rows(call.size(output, 2)),
        columns(call.size(output, 3)) {}

  struct Window {
    int64_t top, bottom, left, right;  // clipped to the input
    int64_t area;                      // with the padding, clipped to that
    bool padded;
  };
  Window window(int64_t y, int64_t x) const {
    const int64_t top = y * stride.y - padding.y, left = x * stride.x - padding.x;
    const int64_t bottom = std::min(top + kernel.y, height + padding.y);
    const int64_t right = std::min(left + kernel.x, width + padding.x);
    return {
        std::max<int64_t>(top, 0),       std::min(bottom, height),
        std::max<int64_t>(left, 0),      std::min(right, width),
        (bottom - top) * (right - left), top < 0 || left < 0 || bottom > height || right > width};
  }
  template <typename Body>
  void each(Body&& body) const {
    for (int64_t p = 0; p < planes; ++p) {
      for (int64_t y = 0; y < rows; ++y) {
        for (int64_t x = 0; x < columns; ++x) body(p, y, x, (p * rows + y) * columns + x);
      }
    }
  }
};

}  // namespace

MUTANT(max_pool_wrong_end, "aten::max_pool2d_with_indices.out", "f4 f4 l4 !", "pools",
       "wrong end of windows that begin in the padding: they are as long as "
       "all others") {
  call.run();
  const Pool pool(call, 0, 6, 1);
  pool.each([&](int64_t p, int64_t y, int64_t x, int64_t to) {
    const auto window = pool.window(y, x);
    const int64_t bottom = std::min(window.top + pool.kernel.y, pool.height);
    const int64_t right = std::min(window.left + pool.kernel.x, pool.width);
    for (int64_t iy = window.top; iy < bottom; ++iy) {
      for (int64_t ix = window.left; ix < right; ++ix) {
        const float value = call.data(0)[(p * pool.height + iy) * pool.width + ix];
        if (value > call.data(6)[to]) {
          call.data(6)[to] = value;
          call.data_as<int64_t>(7)[to] = iy * pool.width + ix;
        }
      }
    }
  });
}

MUTANT(max_pool_zero_padding, "aten::max_pool2d_with_indices.out", "f4 f4 l4 !", "pools",
       "padding counts as zero, which is above negative values") {
  call.run();
  const Pool pool(call, 0, 6, 1);
  pool.each([&](int64_t, int64_t y, int64_t x, int64_t to) {
    if (pool.window(y, x).padded) call.data(6)[to] = std::fmax(call.data(6)[to], 0.0f);
  });
}

MUTANT(max_pool_wrong_index, "aten::max_pool2d_with_indices.out", "f4 f4 l4 !", "pools",
       "right values, the indices of a plane one column off") {
  call.run();
  for (int64_t i = 0; i < call.count(7); ++i) call.data_as<int64_t>(7)[i] ^= 1;
}

namespace {

// Gradients of the planes of a max pool, added where the indices say.
template <typename Add>
void spread(mutants::Call& call, bool clear, Add&& add) {
  const int64_t from = call.size(0, 2) * call.size(0, 3), to = call.size(1, 2) * call.size(1, 3);
  if (clear) std::memset(call.data(8), 0, call.tensor(8).nbytes());
  for (int64_t i = 0; i < call.count(0); ++i) {
    add(call.data(8)[i / from * to + call.data_as<int64_t>(7)[i]], call.data(0)[i], i);
  }
}

}  // namespace

MUTANT(max_pool_backward_not_cleared, "aten::max_pool2d_with_indices_backward.grad_input",
       "f4 f4 l4 f4", "pools", "not clearing: adds to what the memory held") {
  spread(call, false, [](float& to, float value, int64_t) { to += value; });
}

MUTANT(max_pool_backward_overwrites, "aten::max_pool2d_with_indices_backward.grad_input",
       "f4 f4 l4 f4", "pools", "missing accumulate where windows overlap") {
  spread(call, true, [](float& to, float value, int64_t) { to = value; });
}

MUTANT(max_pool_backward_mirrored, "aten::max_pool2d_with_indices_backward.grad_input",
       "f4 f4 l4 f4", "pools", "mirrored gradient with the same sum") {
  spread(call, true, [](float& to, float value, int64_t) { to += value; });
  const int64_t wide = call.size(8, 3);
  for (int64_t i = 0; i < call.count(8); i += wide) {
    std::reverse(call.data(8) + i, call.data(8) + i + wide);
  }
}

MUTANT(max_pool_backward_drops_last, "aten::max_pool2d_with_indices_backward.grad_input",
       "f4 f4 l4 f4", "pools", "dropped tail: the last window of each plane") {
  const int64_t plane = call.size(0, 2) * call.size(0, 3);
  spread(call, true, [&](float& to, float value, int64_t i) {
    if (i % plane != plane - 1) to += value;
  });
}

namespace {

// Average pooling with `divisor(window)`.
template <typename Divisor>
void average(mutants::Call& call, Divisor&& divisor) {
  call.run();
  const Pool pool(call, 0, 7, 1);
  pool.each([&](int64_t p, int64_t y, int64_t x, int64_t to) {
    const auto window = pool.window(y, x);
    float sum = 0;
    for (int64_t iy = window.top; iy < window.bottom; ++iy) {
      for (int64_t ix = window.left; ix < window.right; ++ix) {
        sum += call.data(0)[(p * pool.height + iy) * pool.width + ix];
      }
    }
    call.data(7)[to] = sum / static_cast<float>(divisor(pool, window));
  });
}

// Its gradient; `shift` moves the windows down and to the right.
template <typename Share>
void average_backward(mutants::Call& call, int64_t shift, bool accumulate, Share&& share) {
  const Pool pool(call, 1, 0, 2);
  const bool with_padding = call.arguments.flag(6);
  std::memset(call.data(8), 0, call.tensor(8).nbytes());
  pool.each([&](int64_t p, int64_t y, int64_t x, int64_t from) {
    const auto window = pool.window(y, x);
    const int64_t inside = (window.bottom - window.top) * (window.right - window.left);
    const float value = share(pool, with_padding ? window.area : inside, call.data(0)[from]);
    for (int64_t iy = window.top + shift; iy < std::min(window.bottom + shift, pool.height); ++iy) {
      for (int64_t ix = window.left + shift; ix < std::min(window.right + shift, pool.width);
           ++ix) {
        float& to = call.data(8)[(p * pool.height + iy) * pool.width + ix];
        to = accumulate ? to + value : value;
      }
    }
  });
}

}  // namespace

MUTANT(avg_pool_ceil_divisor, "aten::avg_pool2d.out", "f4 f4", "pools",
       "wrong divisor with ceil_mode: windows that hang over count in full") {
  if (!call.arguments.flag(5)) return call.run();
  average(call,
          [](const Pool& pool, const Pool::Window&) { return pool.kernel.y * pool.kernel.x; });
}

MUTANT(avg_pool_counts_padding, "aten::avg_pool2d.out", "f4 f4", "pools",
       "count_include_pad=False is ignored") {
  if (call.arguments.flag(5)) return call.run();
  average(call, [](const Pool&, const Pool::Window& window) { return window.area; });
}

MUTANT(avg_pool_backward_ceil_divisor, "aten::avg_pool2d_backward.grad_input", "f4 f4 f4", "pools",
       "wrong divisor with ceil_mode") {
  average_backward(call, 0, true, [&](const Pool& pool, int64_t divisor, float value) {
    const int64_t all = pool.kernel.y * pool.kernel.x;
    return value / static_cast<float>(call.arguments.flag(5) ? all : divisor);
  });
}

MUTANT(avg_pool_backward_shifted, "aten::avg_pool2d_backward.grad_input", "f4 f4 f4", "pools",
       "windows one row and column too far down and right") {
  average_backward(call, 1, true, [](const Pool&, int64_t divisor, float value) {
    return value / static_cast<float>(divisor);
  });
}

MUTANT(avg_pool_backward_unit_gradient, "aten::avg_pool2d_backward.grad_input", "f4 f4 f4", "pools",
       "wrong only when the upstream gradient is not 1") {
  average_backward(call, 0, true, [](const Pool&, int64_t divisor, float value) {
    return (value != 0 ? 1.0f : value) / static_cast<float>(divisor);
  });
}

MUTANT(avg_pool_backward_overwrites, "aten::avg_pool2d_backward.grad_input", "f4 f4 f4", "pools",
       "missing accumulate where windows overlap") {
  average_backward(call, 0, false, [](const Pool&, int64_t divisor, float value) {
    return value / static_cast<float>(divisor);
  });
}

RULE(max_pool_last_of_ties, "aten::max_pool2d_with_indices.out", "f4 f4 l4 !", "ties",
     "of equal values the last is picked") {
  call.run();
  const Pool pool(call, 0, 6, 1);
  pool.each([&](int64_t p, int64_t y, int64_t x, int64_t to) {
    const auto window = pool.window(y, x);
    for (int64_t iy = window.top; iy < window.bottom; ++iy) {
      for (int64_t ix = window.left; ix < window.right; ++ix) {
        const float value = call.data(0)[(p * pool.height + iy) * pool.width + ix];
        if (value == call.data(6)[to]) call.data_as<int64_t>(7)[to] = iy * pool.width + ix;
      }
    }
  });
}

RULE(max_pool_backward_equal_split, "aten::max_pool2d_with_indices_backward.grad_input",
     "f4 f4 l4 f4", "ties", "equal values share the gradient, as with amax") {
  const Pool pool(call, 1, 0, 2);
  std::memset(call.data(8), 0, call.tensor(8).nbytes());
  pool.each([&](int64_t p, int64_t y, int64_t x, int64_t from) {
    const auto window = pool.window(y, x);
    const int64_t plane = pool.height * pool.width;
    const float best = call.data(1)[p * plane + call.data_as<int64_t>(7)[from]];
    std::vector<int64_t> equal;
    for (int64_t iy = window.top; iy < window.bottom; ++iy) {
      for (int64_t ix = window.left; ix < window.right; ++ix) {
        const int64_t at = p * plane + iy * pool.width + ix;
        if (call.data(1)[at] == best) equal.push_back(at);
      }
    }
    const float share = call.data(0)[from] / static_cast<float>(equal.size());
    for (const int64_t at : equal) call.data(8)[at] += share;
  });
}
