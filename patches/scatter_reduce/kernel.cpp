// Scatters values to places along one dim, and reduces what meets in one place.
#include <string_view>

#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// scatter_reduce.two_out(Tensor self, int dim, Tensor index, Tensor src, str reduce, *,
//   bool include_self=True, Tensor(a!) out)
enum : size_t { kSelf, kDim, kIndex, kSource, kReduce, kIncludeSelf, kOut };

enum class Reduce { kSum, kProduct, kMean, kMax, kMin, kUnknown };

Reduce read_reduce(std::string_view name) {
  if (name == "sum") return Reduce::kSum;
  if (name == "prod") return Reduce::kProduct;
  if (name == "mean") return Reduce::kMean;
  if (name == "amax") return Reduce::kMax;
  return name == "amin" ? Reduce::kMin : Reduce::kUnknown;
}

template <typename T>
T combine(Reduce reduce, T one, T other) {
  switch (reduce) {
    case Reduce::kProduct:
      return one * other;
    case Reduce::kMax:
      // A NaN stays: no comparison with it holds.
      return one != one || one > other ? one : other;
    case Reduce::kMin:
      return one != one || one < other ? one : other;
    default:
      return one + other;
  }
}

template <typename T>
bool run(Context& context, const Arguments& arguments, Reduce reduce, int64_t dim, Tensor& out) {
  using Sum = Wide<T>;
  const Tensor& self = arguments.tensor(kSelf);
  const Tensor& index = arguments.tensor(kIndex);
  const Tensor& source = arguments.tensor(kSource);
  const bool include_self = arguments.flag(kIncludeSelf);
  const Sum* given = packed<T>(context, self);
  Result<T> result(context, out);
  auto* counts = scratch<int64_t>(context, out.numel());
  if (given == nullptr || result.data == nullptr || counts == nullptr) return true;
  const int64_t total = out.numel();
  for (int64_t i = 0; i < total; ++i) {
    result.data[i] = given[i];
    counts[i] = include_self ? 1 : 0;
  }
  const ssize_t rank = self.dim();
  int64_t strides[kMaxDims];
  int64_t stride = 1;
  for (ssize_t i = rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= out.size(i);
  }
  const T* values = data_of<T>(source);
  const int64_t* places = data_of<int64_t>(index);
  const int64_t limit = rank == 0 ? 1 : self.size(dim);
  int64_t at[kMaxDims] = {};
  for (int64_t k = 0; k < index.numel(); ++k) {
    int64_t place = 0, from = 0, target = 0;
    for (ssize_t i = 0; i < rank; ++i) {
      place += at[i] * index.strides()[i];
      from += at[i] * source.strides()[i];
      if (i != dim) target += at[i] * strides[i];
    }
    const int64_t to = places[place];
    if (to < 0 || to >= limit) return false;
    if (rank > 0) target += to * strides[dim];
    const auto value = static_cast<Sum>(values[from]);
    Sum& cell = result.data[target];
    cell = counts[target] == 0 ? value : combine(reduce, cell, value);
    ++counts[target];
    for (ssize_t i = rank - 1; i >= 0; --i) {
      if (++at[i] < index.size(i)) break;
      at[i] = 0;
    }
  }
  if (reduce == Reduce::kMean) {
    for (int64_t i = 0; i < total; ++i) {
      if (counts[i] < 2) continue;
      const auto count = static_cast<Sum>(counts[i]);
      Sum mean = result.data[i] / count;
      if constexpr (std::is_integral_v<Sum>) {
        // Whole numbers are rounded down, also below zero.
        if (result.data[i] % count != 0 && result.data[i] < 0) --mean;
      }
      result.data[i] = mean;
    }
  }
  result.finish();
  return true;
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& self = arguments.tensor(kSelf);
  const Tensor& index = arguments.tensor(kIndex);
  const Tensor& source = arguments.tensor(kSource);
  Tensor& out = arguments.out(kOut);
  int64_t dim = arguments.integer(kDim);
  const ssize_t rank = self.dim();
  const int64_t dims = rank == 0 ? 1 : rank;
  GRAPHCHECK_CHECK(context, dim >= -dims && dim < dims, "dim is one of self's");
  if (dim < 0) dim += dims;
  const Reduce reduce = read_reduce(arguments.value(kReduce).toString());
  GRAPHCHECK_CHECK(context, reduce != Reduce::kUnknown, "reduce is sum, prod, mean, amax or amin");
  GRAPHCHECK_CHECK(context, index.scalar_type() == ScalarType::Long, "index is int64");
  GRAPHCHECK_CHECK(
      context,
      source.scalar_type() == self.scalar_type() && out.scalar_type() == self.scalar_type(),
      "self, src and out share a dtype");
  GRAPHCHECK_CHECK(context, index.dim() == rank && source.dim() == rank,
                   "self, index and src have the same number of dims");
  for (ssize_t i = 0; i < rank; ++i) {
    GRAPHCHECK_CHECK(context, index.size(i) <= source.size(i), "index is no larger than src");
    GRAPHCHECK_CHECK(context, i == dim || index.size(i) <= self.size(i),
                     "index is no larger than self but along dim");
  }
  if (!resize_as(context, out, self)) return;
  bool inside = true;
  const auto go = [&](auto zero) {
    inside = run<decltype(zero)>(context, arguments, reduce, dim, out);
  };
  bool done = with_floating(self.scalar_type(), go);
  if (self.scalar_type() == ScalarType::Long) {
    go(int64_t{});
    done = true;
  }
  GRAPHCHECK_CHECK(context, done, "the dtype is a floating-point one or int64");
  GRAPHCHECK_CHECK(context, inside, "every index is inside of self along dim");
}

const bool installed = install({"aten::scatter_reduce.two_out", kernel, nullptr, nullptr});

}  // namespace
}  // namespace graphcheck::kernels
