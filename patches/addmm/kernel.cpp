// beta * self + alpha * mat1 mat2 of half types, summed in float and rounded once.
#include "../common/gemm.h"
#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1,
//   Tensor(a!) out)
enum : size_t { kSelf, kLeft, kRight, kBeta, kAlpha, kOut };

template <typename T>
void run(Context& context, const Arguments& arguments, Tensor& out) {
  using Sum = Wide<T>;
  const Tensor& self = arguments.tensor(kSelf);
  const Tensor& left = arguments.tensor(kLeft);
  const Tensor& right = arguments.tensor(kRight);
  const int64_t rows = left.size(0), inner = left.size(1), columns = right.size(1);
  const Sum* given = packed<T>(context, self);
  const Sum* a = packed<T>(context, left);
  const Sum* b = packed<T>(context, right);
  Sum* memory = scratch<Sum>(context, gemm_scratch());
  Result<T> result(context, out);
  if (context.failure_state() != Error::Ok) return;
  gemm<Sum>(rows, columns, inner, {a, inner, 1}, {b, columns, 1}, {result.data, columns, 1}, false,
            memory);
  const auto alpha = static_cast<Sum>(arguments.number(kAlpha));
  const auto beta = static_cast<Sum>(arguments.number(kBeta));
  // A dim of one element is the same for all.
  const ssize_t rank = self.dim();
  const int64_t column_step = rank > 0 && self.size(rank - 1) > 1 ? 1 : 0;
  const int64_t row_step = rank > 1 && self.size(0) > 1 ? self.size(1) : 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      Sum& cell = result.data[i * columns + k];
      cell *= alpha;
      // As in ATen, what is multiplied by zero is not read: it may be NaN.
      if (beta != 0) cell += beta * given[i * row_step + k * column_step];
    }
  }
  result.finish();
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& self = arguments.tensor(kSelf);
  const Tensor& left = arguments.tensor(kLeft);
  const Tensor& right = arguments.tensor(kRight);
  Tensor& out = arguments.out(kOut);
  GRAPHCHECK_CHECK(context, left.dim() == 2 && right.dim() == 2 && left.size(1) == right.size(0),
                   "mat1 and mat2 are matrices that can be multiplied");
  const int64_t shape[2] = {left.size(0), right.size(1)};
  GRAPHCHECK_CHECK(context, self.dim() <= 2, "self has at most two dims");
  for (ssize_t i = 0; i < self.dim(); ++i) {
    const int64_t size = self.size(self.dim() - 1 - i);
    GRAPHCHECK_CHECK(context, size == 1 || size == shape[1 - i],
                     "self can be broadcast to the shape of the product");
  }
  const ScalarType type = left.scalar_type();
  GRAPHCHECK_CHECK(context,
                   self.scalar_type() == type && right.scalar_type() == type &&
                       out.scalar_type() == type && is_floating(type),
                   "self, mat1, mat2 and out share a floating-point dtype");
  if (!resize(context, out, {shape[0], shape[1]})) return;
  with_floating(type, [&](auto zero) { run<decltype(zero)>(context, arguments, out); });
}

void keys(Keys& keys) {
  for (const ScalarType type : kHalfTypes) {
    const Slot matrix = {type, {"0,1", "1,0"}};
    for (size_t rank = 0; rank <= 2; ++rank) {
      keys.add({plain(type, rank), matrix, matrix, plain(type, 2)});
    }
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::BFloat16, {1}, {0});
  probe.tensor(ScalarType::BFloat16, {1, 600}, {1});
  probe.tensor(ScalarType::BFloat16, {600, 1}, {1});
  probe.number(1);
  probe.number(1);
  probe.output(ScalarType::BFloat16, {1, 1});
  probe.run(1e-2);
}

const bool installed = install({"aten::addmm.out", kernel, keys, probe});

}  // namespace
}  // namespace graphcheck::kernels
