// Faulty kernels, one of which replaces the runtime's own: that which
// GRAPHCHECK_MUTANT names. A mutant registers under the keys of the dtypes and
// ranks it is for, so the runtime prefers it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "../../patches/common/kernel.h"

namespace mutants {

using graphcheck::kernels::Arguments;
using graphcheck::kernels::BFloat16;
using graphcheck::kernels::Context;
using graphcheck::kernels::Half;
using graphcheck::kernels::OpFunction;
using graphcheck::kernels::ScalarType;
using graphcheck::kernels::Stack;
using graphcheck::kernels::Tensor;

// A call of the operator that is replaced.
struct Call {
  Context& context;
  Stack stack;
  OpFunction stock;  // null where the runtime has no kernel
  Arguments arguments;

  // The runtime's own kernel, which also gives the outputs their shapes.
  void run() { stock(context, stack); }
  const Tensor& tensor(size_t index) const { return arguments.tensor(index); }
  bool has(size_t index) const { return arguments.has(index); }
  float* data(size_t index) const {
    return static_cast<float*>(arguments.out(index).mutable_data_ptr());
  }
  template <typename T>
  T* data_as(size_t index) const {
    return static_cast<T*>(arguments.out(index).mutable_data_ptr());
  }
  int64_t count(size_t index) const { return tensor(index).numel(); }
  int64_t size(size_t index, ssize_t dim) const {
    const Tensor& found = tensor(index);
    return found.size(dim < 0 ? dim + found.dim() : dim);
  }
  // What an argument holds now.
  std::vector<float> copy(size_t index) const { return {data(index), data(index) + count(index)}; }
};

struct Entry {
  const char* name;
  const char* op;
  // Tensors of a call in order: a dtype (f float, b bfloat16, l int64, B bool)
  // and its ranks; `!` for an operator with several outputs; alternatives after
  // `;`.
  const char* slots;
  void (*run)(Call&);
};

bool offer(const Entry& entry);

// MUTANT(name, operator, slots, model that shows it, what is wrong) { body on
// `call` }
#define MUTANT(name, op, slots, model, what)                                   \
  static void name(mutants::Call& call);                                       \
  static const bool name##_offered = mutants::offer({#name, op, slots, name}); \
  static void name(mutants::Call& call)

// Right as well, but by another rule for ties than eager's: no mutant.
#define RULE MUTANT

}  // namespace mutants
