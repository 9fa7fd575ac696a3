// The gradient of an embedding: each row of the table takes the sum of the gradients of its uses.
#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// embedding_dense_backward.out(Tensor grad_output, Tensor indices, SymInt num_weights,
//   SymInt padding_idx, bool scale_grad_by_freq, *, Tensor(a!) out)
enum : size_t { kGradOutput, kIndices, kRows, kPadding, kScale, kOut };

int64_t index_at(const Tensor& indices, int64_t at) {
  if (indices.scalar_type() == ScalarType::Long) return data_of<int64_t>(indices)[at];
  return data_of<int32_t>(indices)[at];
}

template <typename T>
bool run(Context& context, const Tensor& gradient, const Tensor& indices, int64_t rows,
         int64_t padding, bool scale, int64_t width, Tensor& out) {
  using Sum = Wide<T>;
  const Sum* from = packed<T>(context, gradient);
  Result<T> result(context, out);
  auto* uses = scratch<int64_t>(context, scale ? rows : 0);
  if (from == nullptr || result.data == nullptr || uses == nullptr) return true;
  std::memset(result.data, 0, static_cast<size_t>(rows * width) * sizeof(Sum));
  bool inside = true;
  each_element(indices, [&](int64_t at) {
    const int64_t row = index_at(indices, at);
    inside = inside && row >= 0 && row < rows;
  });
  if (!inside) return false;
  if (scale) {
    std::memset(uses, 0, static_cast<size_t>(rows) * sizeof(int64_t));
    each_element(indices, [&](int64_t at) { ++uses[index_at(indices, at)]; });
  }
  each_element(indices, [&](int64_t at) {
    const int64_t row = index_at(indices, at);
    if (row != padding) {
      Sum* to = result.data + row * width;
      const Sum factor = scale ? Sum(1) / static_cast<Sum>(uses[row]) : Sum(1);
      for (int64_t i = 0; i < width; ++i) to[i] += from[i] * factor;
    }
    from += width;
  });
  result.finish();
  return true;
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& gradient = arguments.tensor(kGradOutput);
  const Tensor& indices = arguments.tensor(kIndices);
  Tensor& out = arguments.out(kOut);
  const int64_t rows = arguments.integer(kRows);
  GRAPHCHECK_CHECK(
      context,
      indices.scalar_type() == ScalarType::Long || indices.scalar_type() == ScalarType::Int,
      "indices are int64 or int32");
  GRAPHCHECK_CHECK(context, gradient.dim() == indices.dim() + 1,
                   "grad_output has one dim more than indices");
  for (ssize_t i = 0; i < indices.dim(); ++i) {
    GRAPHCHECK_CHECK(context, gradient.size(i) == indices.size(i),
                     "grad_output has the shape of indices and a last dim");
  }
  GRAPHCHECK_CHECK(context, rows >= 0, "num_weights is not negative");
  GRAPHCHECK_CHECK(context, out.scalar_type() == gradient.scalar_type(),
                   "grad_output and out share a dtype");
  const int64_t width = gradient.size(gradient.dim() - 1);
  if (!resize(context, out, {rows, width})) return;
  bool inside = true;
  const bool done = with_floating(gradient.scalar_type(), [&](auto zero) {
    inside = run<decltype(zero)>(context, gradient, indices, rows, arguments.integer(kPadding),
                                 arguments.flag(kScale), width, out);
  });
  GRAPHCHECK_CHECK(context, done, "the dtype is a floating-point one");
  GRAPHCHECK_CHECK(context, inside, "every index is a row of the table");
}

const bool installed = install({"aten::embedding_dense_backward.out", kernel, nullptr, nullptr});

}  // namespace
}  // namespace graphcheck::kernels
