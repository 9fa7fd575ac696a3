#include "convolution.h"

#include <algorithm>

#include "parallel.h"

namespace graphcheck::kernels {
namespace {

// Numbers of a block of windows: half of a usual second-level cache.
constexpr int64_t kBlock = 64 * 1024;
constexpr int64_t kFewestColumns = 48;
// An image with fewer places than this shares its blocks with the next one.
constexpr int64_t kManyPlaces = 192;

int64_t floor_divide(int64_t one, int64_t other) {
  return one >= 0 ? one / other : -((-one + other - 1) / other);
}

// How columns are cut into blocks. A column is a place of the output of some image.
struct Blocks {
  int64_t places, width, per_image, count;
  bool shared;

  explicit Blocks(const Convolution& c) : places(c.out_places()) {
    shared = places < kManyPlaces && c.batch > 1;
    const int64_t rows = std::max<int64_t>(1, c.in_group() * c.taps());
    width = std::max(kFewestColumns, kBlock / rows / 16 * 16);
    width = std::min(width, std::max<int64_t>(1, shared ? places * c.batch : places));
    per_image = (places + width - 1) / width;
    count = shared ? (places * c.batch + width - 1) / width : per_image * c.batch;
  }
};

// Columns `begin` to `end` of all images in a row; within one image unless blocks are shared.
struct Block {
  int64_t begin, end;

  Block(const Blocks& blocks, const Convolution& c, int64_t index) {
    if (blocks.shared) {
      begin = index * blocks.width;
      end = std::min(begin + blocks.width, blocks.places * c.batch);
    } else {
      const int64_t image = index / blocks.per_image;
      begin = image * blocks.places + index % blocks.per_image * blocks.width;
      end = std::min(begin + blocks.width, (image + 1) * blocks.places);
    }
  }
  int64_t size() const { return end - begin; }
  // `body(image, first place, one past the last, column of the first)` for each image in the block.
  template <typename Body>
  void each_image(int64_t places, Body&& body) const {
    for (int64_t at = begin; at < end;) {
      const int64_t image = at / places;
      const int64_t stop = std::min(end, (image + 1) * places);
      body(image, at - image * places, stop - image * places, at - begin);
      at = stop;
    }
  }
};

// Runs over the places `from` to `to` of an output in stretches of one row: `body(depth, height,
// first, count, column)`.
template <typename Body>
void each_row(const Convolution& c, int64_t from, int64_t to, Body&& body) {
  const int64_t width = c.output[2];
  for (int64_t at = from; at < to;) {
    const int64_t row = at / width, first = at % width;
    const int64_t count = std::min(width - first, to - at);
    body(row / c.output[1], row % c.output[1], first, count, at - from);
    at += count;
  }
}

// For one tap of the kernel and the places `from` to `to` of an output: `body(column, count,
// inside, cell)` for stretches that read cells from `cell` on in steps of the stride, or, not
// `inside`, padding.
template <typename Body>
void each_stretch(const Convolution& c, const int64_t (&tap)[3], int64_t from, int64_t to,
                  Body&& body) {
  const int64_t shift[3] = {tap[0] * c.dilation[0] - c.padding[0],
                            tap[1] * c.dilation[1] - c.padding[1],
                            tap[2] * c.dilation[2] - c.padding[2]};
  // Places along the width that read inside of the input.
  const int64_t low = std::max<int64_t>(0, -floor_divide(shift[2], c.stride[2]));
  const int64_t high = floor_divide(c.input[2] - 1 - shift[2], c.stride[2]) + 1;
  each_row(c, from, to, [&](int64_t d, int64_t h, int64_t first, int64_t count, int64_t column) {
    const int64_t z = d * c.stride[0] + shift[0], y = h * c.stride[1] + shift[1];
    const bool inside = z >= 0 && z < c.input[0] && y >= 0 && y < c.input[1];
    const int64_t begin = inside ? std::clamp(low, first, first + count) : first + count;
    const int64_t end = inside ? std::clamp(high, begin, first + count) : first + count;
    if (begin > first) body(column, begin - first, false, int64_t{0});
    if (end > begin) {
      const int64_t cell = (z * c.input[1] + y) * c.input[2] + begin * c.stride[2] + shift[2];
      body(column + begin - first, end - begin, true, cell);
    }
    if (first + count > end) body(column + end - first, first + count - end, false, int64_t{0});
  });
}

template <typename Body>
void each_tap(const Convolution& c, Body&& body) {
  for (int64_t d = 0; d < c.kernel[0]; ++d) {
    for (int64_t h = 0; h < c.kernel[1]; ++h) {
      for (int64_t w = 0; w < c.kernel[2]; ++w) body({d, h, w});
    }
  }
}

// The windows of a block: row `channel * taps + tap`, one column for each place.
template <typename T>
void gather(const Convolution& c, const T* input, int64_t group, const Block& block, T* windows) {
  const int64_t columns = block.size(), step = c.stride[2];
  block.each_image(c.out_places(), [&](int64_t image, int64_t from, int64_t to, int64_t start) {
    const T* channel = input + (image * c.in_channels + group * c.in_group()) * c.in_places();
    T* row = windows + start;
    for (int64_t i = 0; i < c.in_group(); ++i, channel += c.in_places()) {
      each_tap(c, [&](const int64_t (&tap)[3]) {
        each_stretch(c, tap, from, to, [&](int64_t at, int64_t count, bool inside, int64_t cell) {
          T* target = row + at;
          const T* source = channel + cell;
          if (!inside) {
            std::fill(target, target + count, T(0));
          } else if (step == 1) {
            std::copy(source, source + count, target);
          } else {
            for (int64_t k = 0; k < count; ++k) target[k] = source[k * step];
          }
        });
        row += columns;
      });
    }
  });
}

// The other way: adds each number of a block to the cell that it was read from.
template <typename T>
void put_back(const Convolution& c, const T* windows, int64_t group, const Block& block, T* input) {
  const int64_t columns = block.size(), step = c.stride[2];
  block.each_image(c.out_places(), [&](int64_t image, int64_t from, int64_t to, int64_t start) {
    T* channel = input + (image * c.in_channels + group * c.in_group()) * c.in_places();
    const T* row = windows + start;
    for (int64_t i = 0; i < c.in_group(); ++i, channel += c.in_places()) {
      each_tap(c, [&](const int64_t (&tap)[3]) {
        each_stretch(c, tap, from, to, [&](int64_t at, int64_t count, bool inside, int64_t cell) {
          if (!inside) return;
          const T* source = row + at;
          T* target = channel + cell;
          if (step == 1) {
            for (int64_t k = 0; k < count; ++k) target[k] += source[k];
          } else {
            for (int64_t k = 0; k < count; ++k) target[k * step] += source[k];
          }
        });
        row += columns;
      });
    }
  });
}

// Whether the windows of an image are the image itself: a kernel of one tap that skips nothing.
bool is_pointwise(const Convolution& c) {
  for (int i = 0; i < 3; ++i) {
    if (c.kernel[i] != 1 || c.stride[i] != 1 || c.padding[i] != 0) return false;
  }
  return true;
}

// A group's channels of a [N, C, places] tensor for the columns of a block, as a matrix: its own
// memory where the block is of one image, a copy otherwise.
template <typename T>
Matrix<const T> channels_of(const T* tensor, int64_t channels, int64_t group, int64_t count,
                            int64_t places, const Block& block, T* copy) {
  if (block.begin / places == (block.end - 1) / places) {
    const int64_t image = block.begin / places;
    const T* start = tensor + (image * channels + group * count) * places;
    return {start + block.begin - image * places, places, 1};
  }
  const int64_t columns = block.size();
  block.each_image(places, [&](int64_t image, int64_t from, int64_t to, int64_t start) {
    const T* source = tensor + (image * channels + group * count) * places;
    for (int64_t i = 0; i < count; ++i) {
      std::copy(source + i * places + from, source + i * places + to, copy + i * columns + start);
    }
  });
  return {copy, columns, 1};
}

// Memory of one worker: windows, a copy of channels, and that of a product.
template <typename T>
struct Worker {
  T* windows;
  T* channels;
  T* product;

  static int64_t size(const Convolution& c, const Blocks& blocks) {
    return blocks.width * (c.in_group() * c.taps() + c.out_group()) + gemm_scratch();
  }
  Worker(const Convolution& c, const Blocks& blocks, T* memory)
      : windows(memory),
        channels(windows + blocks.width * c.in_group() * c.taps()),
        product(channels + blocks.width * c.out_group()) {}
};

template <typename T>
Matrix<const T> windows_of(const Convolution& c, const T* input, int64_t group, const Block& block,
                           const Worker<T>& worker) {
  const int64_t places = c.out_places();
  if (is_pointwise(c) && block.begin / places == (block.end - 1) / places) {
    return channels_of(input, c.in_channels, group, c.in_group(), places, block, worker.windows);
  }
  gather(c, input, group, block, worker.windows);
  return {worker.windows, block.size(), 1};
}

}  // namespace

template <typename T>
void convolve(Context& context, const Convolution& c, const T* input, const T* weight, T* output) {
  if (c.batch * c.out_places() * c.out_channels == 0) return;
  const Blocks blocks(c);
  const int64_t tasks = blocks.count * c.groups, workers = workers_for(tasks);
  const int64_t size = Worker<T>::size(c, blocks), places = c.out_places();
  const int64_t depth = c.in_group() * c.taps(), rows = c.out_group();
  T* memory = scratch<T>(context, workers * size);
  if (memory == nullptr) return;
  in_parallel(tasks, workers, [&](int64_t index, int64_t first, int64_t end) {
    const Worker<T> worker(c, blocks, memory + index * size);
    for (int64_t task = first; task < end; ++task) {
      const int64_t group = task % c.groups;
      const Block block(blocks, c, task / c.groups);
      const Matrix<const T> windows = windows_of(c, input, group, block, worker);
      const Matrix<const T> weights = {weight + group * rows * depth, depth, 1};
      const int64_t image = block.begin / places;
      if (image == (block.end - 1) / places) {
        T* start = output + (image * c.out_channels + group * rows) * places;
        const Matrix<T> to = {start + block.begin - image * places, places, 1};
        gemm(rows, block.size(), depth, weights, windows, to, false, worker.product);
        continue;
      }
      const Matrix<T> to = {worker.channels, block.size(), 1};
      gemm(rows, block.size(), depth, weights, windows, to, false, worker.product);
      block.each_image(places, [&](int64_t n, int64_t from, int64_t stop, int64_t start) {
        T* target = output + (n * c.out_channels + group * rows) * places;
        for (int64_t i = 0; i < rows; ++i) {
          const T* row = worker.channels + i * block.size() + start;
          std::copy(row, row + stop - from, target + i * places + from);
        }
      });
    }
  });
}

template <typename T>
void input_gradient(Context& context, const Convolution& c, const T* gradient, const T* weight,
                    T* result) {
  std::fill(result, result + c.batch * c.in_channels * c.in_places(), T(0));
  if (c.batch * c.out_places() * c.out_channels * c.in_channels == 0) return;
  const Blocks blocks(c);
  const int64_t places = c.out_places(), depth = c.in_group() * c.taps(), rows = c.out_group();
  // Blocks of one image add to the same cells, so a worker has whole images, or whole groups.
  const int64_t images = blocks.shared ? 1 : c.batch;
  const int64_t per_image = blocks.shared ? blocks.count : blocks.per_image;
  const int64_t tasks = images * c.groups, workers = workers_for(tasks);
  const int64_t size = Worker<T>::size(c, blocks);
  T* memory = scratch<T>(context, workers * size);
  if (memory == nullptr) return;
  in_parallel(tasks, workers, [&](int64_t index, int64_t first, int64_t end) {
    const Worker<T> worker(c, blocks, memory + index * size);
    for (int64_t task = first; task < end; ++task) {
      const int64_t group = task % c.groups, image = task / c.groups;
      for (int64_t k = 0; k < per_image; ++k) {
        const Block block(blocks, c, image * per_image + k);
        const Matrix<const T> given =
            channels_of(gradient, c.out_channels, group, rows, places, block, worker.channels);
        const Matrix<const T> weights = {weight + group * rows * depth, 1, depth};
        const Matrix<T> windows = {worker.windows, block.size(), 1};
        gemm(depth, block.size(), rows, weights, given, windows, false, worker.product);
        put_back(c, worker.windows, group, block, result);
      }
    }
  });
}

template <typename T>
void weight_gradient(Context& context, const Convolution& c, const T* gradient, const T* input,
                     T* result) {
  const int64_t count = c.weights();
  std::fill(result, result + count, T(0));
  if (c.batch * c.out_places() * count == 0) return;
  const Blocks blocks(c);
  const int64_t places = c.out_places(), depth = c.in_group() * c.taps(), rows = c.out_group();
  const int64_t tasks = blocks.count * c.groups, workers = workers_for(tasks);
  const int64_t size = Worker<T>::size(c, blocks);
  // Workers add up on their own; their sums are added in order.
  T* memory = scratch<T>(context, workers * size + (workers - 1) * count);
  if (memory == nullptr) return;
  T* sums = memory + workers * size;
  std::fill(sums, sums + (workers - 1) * count, T(0));
  in_parallel(tasks, workers, [&](int64_t index, int64_t first, int64_t end) {
    const Worker<T> worker(c, blocks, memory + index * size);
    T* own = index == 0 ? result : sums + (index - 1) * count;
    for (int64_t task = first; task < end; ++task) {
      const int64_t group = task % c.groups;
      const Block block(blocks, c, task / c.groups);
      const Matrix<const T> windows = windows_of(c, input, group, block, worker);
      const Matrix<const T> transposed = {windows.data, windows.column, windows.row};
      const Matrix<const T> given =
          channels_of(gradient, c.out_channels, group, rows, places, block, worker.channels);
      const Matrix<T> to = {own + group * rows * depth, depth, 1};
      gemm(rows, depth, block.size(), given, transposed, to, true, worker.product);
    }
  });
  for (int64_t w = 0; w < workers - 1; ++w) {
    for (int64_t i = 0; i < count; ++i) result[i] += sums[w * count + i];
  }
}

template void convolve<float>(Context&, const Convolution&, const float*, const float*, float*);
template void convolve<double>(Context&, const Convolution&, const double*, const double*, double*);
template void input_gradient<float>(Context&, const Convolution&, const float*, const float*,
                                    float*);
template void input_gradient<double>(Context&, const Convolution&, const double*, const double*,
                                     double*);
template void weight_gradient<float>(Context&, const Convolution&, const float*, const float*,
                                     float*);
template void weight_gradient<double>(Context&, const Convolution&, const double*, const double*,
                                      double*);

}  // namespace graphcheck::kernels
