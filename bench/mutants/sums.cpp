// Reductions, matrix products, norms and softmax.
#include "mutants.h"

using mutants::BFloat16;
using mutants::Half;

namespace {

// Adds up a matrix product in the type `Sum`.
template <typename T, typename Sum>
void product(const T* a, const T* b, T* to, int64_t rows, int64_t inner, int64_t columns) {
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < columns; ++x) {
      Sum sum = static_cast<Sum>(0.0f);
      for (int64_t k = 0; k < inner; ++k) {
        const float term =
            static_cast<float>(a[y * inner + k]) * static_cast<float>(b[k * columns + x]);
        sum = static_cast<Sum>(static_cast<float>(sum) + term);
      }
      to[y * columns + x] = static_cast<T>(static_cast<float>(sum));
    }
  }
}

// The reduced dim of a reduction of one dim, -1 for others.
ssize_t reduced(const mutants::Call& call, size_t input, size_t dims) {
  if (!call.has(dims) || call.arguments.integers(dims).size() != 1) return -1;
  const int64_t dim = call.arguments.integers(dims)[0];
  return dim < 0 ? dim + call.tensor(input).dim() : dim;
}

}  // namespace

MUTANT(sum_wrong_dim, "aten::sum.IntList_out", "f2 f12", "squares",
       "reduces the other dim of a square matrix") {
  call.run();
  const ssize_t dim = reduced(call, 0, 1);
  const int64_t size = call.size(0, 0);
  if (dim < 0 || size != call.size(0, 1)) return;
  for (int64_t i = 0; i < size; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < size; ++k) sum += call.data(0)[dim == 0 ? i * size + k : k * size + i];
    call.data(4)[i] = sum;
  }
}

MUTANT(sum_drops_last, "aten::sum.IntList_out", "f23 f123", "rows",
       "off by one: the last term is left out") {
  call.run();
  const ssize_t dim = reduced(call, 0, 1);
  if (dim < 0) return;
  const int64_t length = call.size(0, dim), all = call.count(0);
  int64_t inner = 1;
  for (ssize_t i = dim + 1; i < call.tensor(0).dim(); ++i) inner *= call.size(0, i);
  for (int64_t o = 0; o < all / length; ++o) {
    const int64_t outer = o / inner;
    call.data(4)[o] -= call.data(0)[(outer * length + length - 1) * inner + o % inner];
  }
}

MUTANT(mean_wrong_divisor, "aten::mean.out", "f1234 f0123", "rows", "divides by n - 1") {
  call.run();
  const auto terms = static_cast<float>(call.count(0) / std::max<int64_t>(1, call.count(4)));
  if (terms < 2) return;
  for (int64_t i = 0; i < call.count(4); ++i) call.data(4)[i] *= terms / (terms - 1);
}

MUTANT(mm_transposed_weight, "aten::mm.out", "f2 f2 f2", "squares",
       "a square second matrix is read transposed") {
  call.run();
  const int64_t rows = call.size(0, 0), size = call.size(1, 0);
  if (size != call.size(1, 1)) return;
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < size; ++x) {
      float sum = 0;
      for (int64_t k = 0; k < size; ++k) {
        sum += call.data(0)[y * size + k] * call.data(1)[x * size + k];
      }
      call.data(2)[y * size + x] = sum;
    }
  }
}

MUTANT(mm_adds_up_in_half, "aten::mm.out", "f2 f2 f2", "rows", "float matrices, added up in half") {
  call.run();
  product<float, Half>(call.data(0), call.data(1), call.data(2), call.size(0, 0), call.size(0, 1),
                       call.size(1, 1));
}

MUTANT(mm_bfloat16_sum, "aten::mm.out", "b2 b2 b2", "halves",
       "bfloat16 matrices, added up in bfloat16") {
  call.run();
  product<BFloat16, BFloat16>(call.data_as<BFloat16>(0), call.data_as<BFloat16>(1),
                              call.data_as<BFloat16>(2), call.size(0, 0), call.size(0, 1),
                              call.size(1, 1));
}

MUTANT(addmm_without_bias, "aten::addmm.out", "f12 f2 f2 f2", "rows", "the bias is missing") {
  call.run();
  product<float, float>(call.data(1), call.data(2), call.data(5), call.size(1, 0), call.size(1, 1),
                        call.size(2, 1));
}

MUTANT(addmm_short_sum, "aten::addmm.out", "f12 f2 f2 f2", "convolutions",
       "off by one: the last term of each sum is left out") {
  call.run();
  const int64_t inner = call.size(1, 1), columns = call.size(2, 1);
  for (int64_t i = 0; i < call.count(5); ++i) {
    call.data(5)[i] -= call.data(1)[i / columns * inner + inner - 1] *
                       call.data(2)[(inner - 1) * columns + i % columns];
  }
}

MUTANT(bmm_first_batch, "aten::bmm.out", "f3 f3 f3", "rows",
       "the second operand is always that of the first batch") {
  call.run();
  const int64_t rows = call.size(0, 1), inner = call.size(0, 2), columns = call.size(1, 2);
  for (int64_t n = 0; n < call.size(0, 0); ++n) {
    product<float, float>(call.data(0) + n * rows * inner, call.data(1),
                          call.data(2) + n * rows * columns, rows, inner, columns);
  }
}

MUTANT(softmax_short_sum, "aten::_softmax.out", "f1234 f1234", "rows",
       "the last entry is missing in the sum") {
  call.run();
  const int64_t wide = call.size(3, -1);
  for (int64_t row = 0; row < call.count(3) / wide; ++row) {
    float* to = call.data(3) + row * wide;
    float sum = 0;
    for (int64_t i = 0; i + 1 < wide; ++i) sum += to[i];
    for (int64_t i = 0; i < wide; ++i) to[i] /= std::fmax(sum, 1e-20f);
  }
}

MUTANT(softmax_wrong_dim, "aten::_softmax.out", "f3 f3", "rows", "normalises columns for rows") {
  call.run();
  const int64_t rows = call.size(3, 1), wide = call.size(3, 2);
  for (int64_t n = 0; n < call.size(3, 0); ++n) {
    const float* from = call.data(0) + n * rows * wide;
    for (int64_t x = 0; x < wide; ++x) {
      float best = from[x], sum = 0;
      for (int64_t y = 0; y < rows; ++y) best = std::fmax(best, from[y * wide + x]);
      for (int64_t y = 0; y < rows; ++y) sum += std::exp(from[y * wide + x] - best);
      for (int64_t y = 0; y < rows; ++y) {
        call.data(3)[(n * rows + y) * wide + x] = std::exp(from[y * wide + x] - best) / sum;
      }
    }
  }
}

MUTANT(log_softmax_stale_row, "aten::_log_softmax.out", "f2 f2", "rows",
       "the last row keeps what its memory held") {
  const std::vector<float> before = call.copy(3);
  call.run();
  const int64_t all = call.count(3);
  for (int64_t i = all - call.size(3, 1); i < all; ++i) {
    call.data(3)[i] = before[static_cast<size_t>(i)];
  }
}

MUTANT(layer_norm_without_eps, "aten::native_layer_norm.out", "f23 f1 f1 f23 f23 f23 !", "rows",
       "epsilon (1e-5) is forgotten") {
  call.run();
  const int64_t wide = call.size(0, -1);
  for (int64_t row = 0; row < call.count(0) / wide; ++row) {
    const float* from = call.data(0) + row * wide;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < wide; ++i) mean += from[i] / static_cast<double>(wide);
    for (int64_t i = 0; i < wide; ++i) square += (from[i] - mean) * (from[i] - mean);
    const double scale = 1 / std::sqrt(square / static_cast<double>(wide));
    for (int64_t i = 0; i < wide; ++i) {
      call.data(5)[row * wide + i] =
          static_cast<float>((from[i] - mean) * scale * call.data(2)[i] + call.data(3)[i]);
    }
    call.data(7)[row] = static_cast<float>(scale);
  }
}

MUTANT(layer_norm_without_weight, "aten::native_layer_norm.out", "f23 f1 f1 f23 f23 f23 !", "rows",
       "the weight is ignored, which shows once it is trained") {
  call.run();
  const int64_t wide = call.size(0, -1);
  for (int64_t i = 0; i < call.count(5); ++i) {
    const float bias = call.data(3)[i % wide];
    call.data(5)[i] = (call.data(5)[i] - bias) / call.data(2)[i % wide] + bias;
  }
}

MUTANT(group_norm_unbiased, "aten::native_group_norm.out", "f234 f1 f1 f234 f2 f2 !", "squares",
       "the variance is divided by n - 1") {
  call.run();
  const auto terms = static_cast<float>(call.count(0) / call.count(9));
  const float scale = std::sqrt((terms - 1) / terms);
  const int64_t channels = call.size(0, 1), inner = call.count(0) / channels / call.size(0, 0);
  for (int64_t i = 0; i < call.count(0); ++i) {
    const float bias = call.data(2)[i / inner % channels];
    call.data(8)[i] = (call.data(8)[i] - bias) * scale + bias;
  }
  for (int64_t i = 0; i < call.count(10); ++i) call.data(10)[i] *= scale;
}

MUTANT(cumsum_exclusive, "aten::cumsum.out", "f2 f2", "squares", "leaves out the entry itself") {
  call.run();
  for (int64_t i = 0; i < call.count(3); ++i) call.data(3)[i] -= call.data(0)[i];
}

MUTANT(var_biased, "aten::var.correction_out", "f2 f12", "squares", "the correction is ignored") {
  call.run();
  const auto terms = static_cast<float>(call.count(0) / call.count(4));
  for (int64_t i = 0; i < call.count(4); ++i) call.data(4)[i] *= (terms - 1) / terms;
}
