// Entry by entry: tails, broadcasting, scalars, special values, and memory that
// is not theirs.
#include "mutants.h"

using mutants::Half;

MUTANT(mul_dropped_tail, "aten::mul.out", "f01234 f01234 f01234", "rows",
       "dropped tail: the last entry keeps what its memory held") {
  const std::vector<float> before = call.copy(2);
  call.run();
  const int64_t last = call.count(2) - 1;
  if (last > 0) call.data(2)[last] = before[static_cast<size_t>(last)];
}

MUTANT(mul_wrong_broadcast, "aten::mul.out", "f01234 f01234 f01234", "rows",
       "wrong broadcasting: a column is walked as if it were a row") {
  call.run();
  const int64_t small = call.count(1), all = call.count(2);
  if (small == 1 || small == all || call.count(0) != all) return;
  for (int64_t i = 0; i < all; ++i) call.data(2)[i] = call.data(0)[i] * call.data(1)[i % small];
}

MUTANT(add_without_alpha, "aten::add.out", "f01234 f01234 f01234", "rows", "alpha is ignored") {
  call.run();
  if (call.count(0) != call.count(3) || call.count(1) != call.count(3)) return;
  for (int64_t i = 0; i < call.count(3); ++i) call.data(3)[i] = call.data(0)[i] + call.data(1)[i];
}

MUTANT(add_writes_input, "aten::add.out", "f01234 f01234 f01234", "rows",
       "in-place write: the sum goes into the first input, too") {
  call.run();
  if (call.count(0) == call.count(3)) call.data(0)[0] = call.data(3)[0];
}

MUTANT(sub_writes_beside, "aten::sub.out", "f01234 f01234 f01234", "convolutions",
       "writes one entry beyond its output") {
  call.run();
  call.data(3)[call.count(3)] = 1.0f;
}

MUTANT(sub_reversed, "aten::sub.out", "f01234 f01234 f01234", "rows",
       "subtracts the first from the second") {
  call.run();
  for (int64_t i = 0; i < call.count(3); ++i) call.data(3)[i] = -call.data(3)[i];
}

MUTANT(relu_nan_at_zero, "aten::relu.out", "f01234 f01234", "convolutions",
       "NaN only for zero input") {
  call.run();
  for (int64_t i = 0; i < call.count(1); ++i) {
    if (call.data(0)[i] == 0) call.data(1)[i] = std::nanf("");
  }
}

MUTANT(relu_leaks, "aten::relu.out", "f01234 f01234", "convolutions",
       "lets a thousandth of negative input through") {
  call.run();
  for (int64_t i = 0; i < call.count(1); ++i) {
    if (call.data(0)[i] < 0) call.data(1)[i] = 0.001f * call.data(0)[i];
  }
}

MUTANT(le_strict, "aten::le.Scalar_out", "f01234 B01234", "convolutions",
       "< for <=: the backward of relu lets the gradient through at zero") {
  call.run();
  for (int64_t i = 0; i < call.count(2); ++i) {
    call.data_as<bool>(2)[i] = call.data(0)[i] < call.arguments.number(1);
  }
}

MUTANT(gelu_by_tanh, "aten::gelu.out", "f01234 f01234", "rows",
       "the tanh approximation where the exact form is asked for") {
  call.run();
  for (int64_t i = 0; i < call.count(2); ++i) {
    const float x = call.data(0)[i];
    call.data(2)[i] = 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
  }
}

MUTANT(sigmoid_clipped, "aten::sigmoid.out", "f01234 f01234", "rows",
       "input is clipped to [-3, 3]") {
  call.run();
  for (int64_t i = 0; i < call.count(1); ++i) {
    const float x = std::fmin(3.0f, std::fmax(-3.0f, call.data(0)[i]));
    call.data(1)[i] = 1 / (1 + std::exp(-x));
  }
}

MUTANT(exp_in_half, "aten::exp.out", "f01234 f01234", "rows", "computed in half precision") {
  call.run();
  for (int64_t i = 0; i < call.count(1); ++i) {
    call.data(1)[i] = static_cast<float>(static_cast<Half>(call.data(1)[i]));
  }
}

MUTANT(tanh_rational, "aten::tanh.out", "f01234 f01234", "convolutions",
       "a rational approximation that is off by 1e-4") {
  call.run();
  for (int64_t i = 0; i < call.count(1); ++i) {
    const float x = call.data(0)[i], square = x * x;
    call.data(1)[i] = x * (945 + square * (104 + square)) / (945 + square * (420 + 15 * square));
  }
}

MUTANT(div_stale_last_row, "aten::div.out", "f01234 f01234 f01234", "rows",
       "stale last row of the first dim") {
  const std::vector<float> before = call.copy(2);
  call.run();
  if (call.tensor(2).dim() < 2 || call.size(2, 0) < 2) return;
  const int64_t all = call.count(2), row = all / call.size(2, 0);
  for (int64_t i = all - row; i < all; ++i) call.data(2)[i] = before[static_cast<size_t>(i)];
}

MUTANT(sqrt_one_newton, "aten::sqrt.out", "f01234 f01234", "rows",
       "one Newton step from a coarse guess") {
  call.run();
  for (int64_t i = 0; i < call.count(1); ++i) {
    const float guess = call.data(1)[i] * 1.01f;
    call.data(1)[i] = 0.5f * (guess + call.data(0)[i] / guess);
  }
}

MUTANT(where_tail_swapped, "aten::where.self_out", "B01234 f01234 f01234 f01234", "rows",
       "the last entry takes the other choice") {
  call.run();
  const int64_t last = call.count(3) - 1;
  const auto at = [&](size_t index) { return call.data(index)[call.count(index) - 1]; };
  if (last < 1) return;
  const bool first = call.data_as<bool>(0)[call.count(0) - 1];
  call.data(3)[last] = first ? at(2) : at(1);
}

MUTANT(pow_of_absolute, "aten::pow.Tensor_Scalar_out", "f01234 f01234", "squares",
       "an odd power of a negative number is positive") {
  call.run();
  for (int64_t i = 0; i < call.count(2); ++i) call.data(2)[i] = std::fabs(call.data(2)[i]);
}

MUTANT(clamp_without_upper, "aten::clamp.out", "f01234 f01234", "squares",
       "the upper bound is ignored") {
  call.run();
  for (int64_t i = 0; i < call.count(3); ++i) {
    const auto low = static_cast<float>(call.arguments.number(1));
    call.data(3)[i] = std::fmax(call.data(0)[i], low);
  }
}
