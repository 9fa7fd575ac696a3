// Sorting along one dim. Equal values keep their order, and NaN is larger than all, as in ATen.
#include <algorithm>

#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return value != value;
  }
}

// Whether `one` comes before `other`; false for equals, so that a merge keeps their order.
template <typename T>
bool precedes(T one, T other, bool descending) {
  if (descending) return (is_nan(one) && !is_nan(other)) || one > other;
  return (is_nan(other) && !is_nan(one)) || one < other;
}

template <typename T>
struct Entry {
  T value;
  int64_t index;
};

// Merges runs of 1, 2, 4, ... entries, to and fro between two rows; the sorted one is returned.
template <typename T>
Entry<T>* merge_sort(Entry<T>* row, Entry<T>* spare, int64_t count, bool descending) {
  for (int64_t width = 1; width < count; width *= 2) {
    for (int64_t start = 0; start < count; start += 2 * width) {
      const int64_t middle = std::min(start + width, count);
      const int64_t end = std::min(start + 2 * width, count);
      int64_t left = start, right = middle;
      for (int64_t i = start; i < end; ++i) {
        const bool second =
            left == middle ||
            (right < end && precedes(row[right].value, row[left].value, descending));
        spare[i] = second ? row[right++] : row[left++];
      }
    }
    std::swap(row, spare);
  }
  return row;
}

template <typename T>
void run(Context& context, const Tensor& input, int64_t dim, bool descending, Tensor& values,
         Tensor& indices) {
  using Key = Wide<T>;
  const T* from = data_of<T>(input);
  T* to = mutable_data_of<T>(values);
  int64_t* places = mutable_data_of<int64_t>(indices);
  const ssize_t rank = input.dim();
  const int64_t count = rank == 0 ? 1 : input.size(dim);
  auto* memory = scratch<Entry<Key>>(context, 2 * count);
  if (memory == nullptr || input.numel() == 0) return;
  // Every row along `dim` starts at one place of the other dims.
  int64_t index[kMaxDims] = {};
  const int64_t step[3] = {rank == 0 ? 0 : input.strides()[dim],
                           rank == 0 ? 0 : values.strides()[dim],
                           rank == 0 ? 0 : indices.strides()[dim]};
  for (int64_t row = 0; row < input.numel() / count; ++row) {
    int64_t start[3] = {0, 0, 0};
    for (ssize_t i = 0; i < rank; ++i) {
      start[0] += index[i] * input.strides()[i];
      start[1] += index[i] * values.strides()[i];
      start[2] += index[i] * indices.strides()[i];
    }
    for (int64_t i = 0; i < count; ++i) {
      memory[i] = {static_cast<Key>(from[start[0] + i * step[0]]), i};
    }
    const Entry<Key>* sorted = merge_sort(memory, memory + count, count, descending);
    for (int64_t i = 0; i < count; ++i) {
      to[start[1] + i * step[1]] = static_cast<T>(sorted[i].value);
      places[start[2] + i * step[2]] = sorted[i].index;
    }
    for (ssize_t i = rank - 1; i >= 0; --i) {
      if (i == dim) continue;
      if (++index[i] < input.size(i)) break;
      index[i] = 0;
    }
  }
}

// sort.values(Tensor self, int dim, bool descending, *, Tensor(a!) values, Tensor(b!) indices), and
// sort.values_stable with `bool? stable` before dim. Both are stable here.
void sort(Context& context, const Arguments& arguments, size_t first) {
  const Tensor& input = arguments.tensor(0);
  int64_t dim = arguments.integer(first);
  const bool descending = arguments.flag(first + 1);
  Tensor& values = arguments.out(first + 2);
  Tensor& indices = arguments.out(first + 3);
  const int64_t rank = input.dim();
  const int64_t dims = std::max<int64_t>(rank, 1);
  GRAPHCHECK_CHECK(context, dim >= -dims && dim < dims, "dim is one of self's");
  if (dim < 0) dim += dims;
  GRAPHCHECK_CHECK(context, values.scalar_type() == input.scalar_type(),
                   "self and values share a dtype");
  GRAPHCHECK_CHECK(context, indices.scalar_type() == ScalarType::Long, "indices are int64");
  if (!resize_as(context, values, input) || !resize_as(context, indices, input)) return;
  const auto go = [&](auto zero) {
    run<decltype(zero)>(context, input, dim, descending, values, indices);
  };
  if (with_floating(input.scalar_type(), go)) return;
  switch (input.scalar_type()) {
    case ScalarType::Byte:
      return go(uint8_t{});
    case ScalarType::Char:
      return go(int8_t{});
    case ScalarType::Short:
      return go(int16_t{});
    case ScalarType::Int:
      return go(int32_t{});
    case ScalarType::Long:
      return go(int64_t{});
    case ScalarType::Bool:
      return go(bool{});
    default:
      GRAPHCHECK_CHECK(context, false, "the dtype is a real one");
  }
}

void kernel(Context& context, Stack stack) { sort(context, Arguments(stack), 1); }
void stable_kernel(Context& context, Stack stack) { sort(context, Arguments(stack), 2); }

const bool installed = install({"aten::sort.values", kernel, nullptr, nullptr}) &&
                       install({"aten::sort.values_stable", stable_kernel, nullptr, nullptr});

}  // namespace
}  // namespace graphcheck::kernels
