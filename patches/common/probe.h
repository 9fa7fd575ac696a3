// Tiny calls that show whether the runtime's own kernel is right: it must give what ours gives.
#pragma once

#include <deque>
#include <vector>

#include "kernel.h"

namespace graphcheck::kernels {

// Collects the values of one call, runs it on both kernels and compares what they write.
class Probe {
 public:
  Probe(OpFunction stock, OpFunction own) : stock_(stock), own_(own) {}

  // The numbers are repeated until the tensor is full.
  void tensor(ScalarType type, std::vector<int32_t> sizes, std::vector<double> values);
  // An output, full of NaN (of zeros for integers) before each run.
  void output(ScalarType type, std::vector<int32_t> sizes);
  void none() { values_.emplace_back(); }
  void integer(int64_t value) { values_.emplace_back(value); }
  void number(double value) { values_.emplace_back(value); }
  void flag(bool value) { values_.emplace_back(value); }
  void integers(std::vector<int64_t> list);
  void flags(std::initializer_list<bool> list);
  // A list of one tensor (an operator's `Tensor?[]`).
  void list_of(ScalarType type, std::vector<int32_t> sizes, std::vector<double> values);
  // Runs the call on both, and forgets it. `tolerance` is relative to the largest value.
  void run(double tolerance);
  // Runs the call on the runtime's kernel alone, and lets `right` look at what it wrote.
  void judge(bool (*right)(const std::vector<std::vector<double>>&));
  bool agrees() const { return agrees_; }

 private:
  struct Held {
    Tensor::SizesType sizes[kMaxDims];
    executorch::aten::DimOrderType order[kMaxDims];
    executorch::aten::StridesType strides[kMaxDims];
    std::vector<double> data;  // of doubles for their alignment
    size_t bytes;
    std::optional<executorch::aten::TensorImpl> impl;
  };
  struct List {
    std::vector<EValue> values;
    std::vector<EValue*> pointers;
    std::vector<int64_t> integers;
    std::optional<Tensor> tensors[2];
    bool flags[8];
    std::optional<ArrayRef<bool>> boxed_flags;
    std::optional<executorch::runtime::BoxedEvalueList<int64_t>> boxed;
    std::optional<executorch::runtime::BoxedEvalueList<std::optional<Tensor>>> boxed_tensors;
  };

  Held& hold(ScalarType type, const std::vector<int32_t>& sizes);
  void forget();
  bool call(OpFunction function, std::vector<std::vector<double>>& results);

  OpFunction stock_;
  OpFunction own_;
  std::deque<Held> tensors_;
  std::deque<List> lists_;
  std::deque<EValue> values_;
  std::vector<Held*> outputs_;
  bool agrees_ = true;
};

}  // namespace graphcheck::kernels
