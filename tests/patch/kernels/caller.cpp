// Calls kernels of the runtime's registry from another language: values in, error code out.
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace {

using namespace executorch::runtime;
using executorch::aten::DimOrderType;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::StridesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

enum Kind : int32_t {
  kNone,
  kInt,
  kDouble,
  kBool,
  kIntList,
  kTensor,
  kTensorList,
  kBoolList,
  kString
};

struct Argument {
  int32_t kind;
  int32_t dtype;
  int32_t rank;
  int32_t count;
  int32_t sizes[8];
  uint8_t order[8];
  void* data;
  int64_t integer;
  double number;
  Argument* items;
};

class Temporary : public MemoryAllocator {
 public:
  Temporary() : MemoryAllocator(0, nullptr) {}
  ~Temporary() override { Temporary::reset(); }
  void* allocate(size_t size, size_t) override {
    blocks_.push_back(std::malloc(size + 1));
    // What a kernel finds in temporary memory is not zero.
    std::memset(blocks_.back(), 0xff, size);
    return blocks_.back();
  }
  void reset() override {
    for (void* block : blocks_) std::free(block);
    blocks_.clear();
  }

 private:
  std::vector<void*> blocks_;
};

struct Held {
  SizesType sizes[8];
  DimOrderType order[8];
  StridesType strides[8];
  std::optional<TensorImpl> impl;
};

struct List {
  std::deque<EValue> values;
  std::vector<EValue*> pointers;
  std::vector<int64_t> integers;
  std::vector<std::optional<Tensor>> tensors;
  std::vector<Tensor> results;
  std::unique_ptr<bool[]> flags;
  std::optional<BoxedEvalueList<int64_t>> boxed;
  std::optional<BoxedEvalueList<std::optional<Tensor>>> boxed_tensors;
  std::optional<BoxedEvalueList<Tensor>> boxed_results;
  std::optional<executorch::aten::ArrayRef<bool>> boxed_flags;
  std::optional<executorch::aten::ArrayRef<char>> text;
};

struct Call {
  std::deque<Held> held;
  std::deque<List> lists;
  std::deque<EValue> values;

  Tensor tensor(const Argument& from) {
    Held& one = held.emplace_back();
    for (int i = 0; i < from.rank; ++i) {
      one.sizes[i] = from.sizes[i];
      one.order[i] = from.order[i];
    }
    StridesType stride = 1;
    for (int i = from.rank - 1; i >= 0; --i) {
      one.strides[one.order[i]] = stride;
      stride *= one.sizes[one.order[i]] > 0 ? one.sizes[one.order[i]] : 1;
    }
    one.impl.emplace(static_cast<ScalarType>(from.dtype), from.rank, one.sizes, from.data,
                     one.order, one.strides);
    return Tensor(&*one.impl);
  }

  EValue value(const Argument& from) {
    switch (from.kind) {
      case kInt:
        return EValue(from.integer);
      case kDouble:
        return EValue(from.number);
      case kBool:
        return EValue(from.integer != 0);
      case kTensor:
        return EValue(tensor(from));
      case kIntList: {
        List& list = lists.emplace_back();
        const auto* numbers = static_cast<const int64_t*>(from.data);
        for (int i = 0; i < from.count; ++i) list.values.emplace_back(numbers[i]);
        for (auto& one : list.values) list.pointers.push_back(&one);
        list.pointers.push_back(nullptr);
        list.integers.resize(static_cast<size_t>(from.count) + 1);
        list.boxed.emplace(list.pointers.data(), list.integers.data(), from.count);
        return EValue(&*list.boxed);
      }
      case kString: {
        List& list = lists.emplace_back();
        list.text.emplace(static_cast<const char*>(from.data), static_cast<size_t>(from.count));
        return EValue(&*list.text);
      }
      case kBoolList: {
        List& list = lists.emplace_back();
        list.flags = std::make_unique<bool[]>(8);
        for (int i = 0; i < from.count; ++i) {
          list.flags[i] = static_cast<const int64_t*>(from.data)[i] != 0;
        }
        list.boxed_flags.emplace(list.flags.get(), static_cast<size_t>(from.count));
        return EValue(&*list.boxed_flags);
      }
      case kTensorList: {
        List& list = lists.emplace_back();
        for (int i = 0; i < from.count; ++i) list.values.push_back(value(from.items[i]));
        for (auto& one : list.values) list.pointers.push_back(&one);
        list.pointers.push_back(nullptr);
        list.tensors.resize(static_cast<size_t>(from.count) + 1);
        list.boxed_tensors.emplace(list.pointers.data(), list.tensors.data(), from.count);
        return EValue(&*list.boxed_tensors);
      }
      default:
        return EValue();
    }
  }
};

OpFunction find(const char* op, const std::vector<EValue*>& stack, bool fallback) {
  std::vector<TensorMeta> metas;
  for (const EValue* value : stack) {
    if (fallback || !value->isTensor()) continue;
    const auto order = value->toTensor().dim_order();
    metas.emplace_back(value->toTensor().scalar_type(),
                       Span<DimOrderType>(const_cast<DimOrderType*>(order.data()), order.size()));
  }
  const auto found = get_op_function_from_registry(op, {metas.data(), metas.size()});
  return found.ok() ? *found : nullptr;
}

}  // namespace

extern "C" {

// Calls `op` with `count` values, the last `outs` of them outputs; with `fallback` the kernel for
// all arguments, otherwise the one that the runtime would choose. Runs it `repeats` times, each
// after clearing the outputs if `clear` says so, and writes the best time in seconds. Returns the
// runtime's error code, -1 if there is no kernel. Shapes of outputs are written back.
int32_t call_kernel(const char* op, Argument* arguments, int32_t count, int32_t outs,
                    int32_t fallback, int32_t repeats, int32_t clear, double* seconds) {
  Call call;
  std::vector<EValue*> stack;
  for (int i = 0; i < count; ++i) {
    call.values.push_back(call.value(arguments[i]));
    stack.push_back(&call.values.back());
  }
  List results;
  if (outs == 1) {
    stack.push_back(stack.back());
  } else {
    for (int i = count - outs; i < count; ++i) results.pointers.push_back(stack[i]);
    results.results.reserve(static_cast<size_t>(outs));
    std::vector<Tensor>& given = results.results;
    for (int i = count - outs; i < count; ++i) given.push_back(call.values[i].toTensor());
    results.boxed_results.emplace(results.pointers.data(), given.data(), outs);
    call.values.emplace_back(&*results.boxed_results);
    stack.push_back(&call.values.back());
  }
  const OpFunction function = find(op, stack, fallback != 0);
  if (function == nullptr) return -1;
  Error error = Error::Ok;
  for (int i = 0; i < repeats && error == Error::Ok; ++i) {
    Temporary temporary;
    KernelRuntimeContext context(nullptr, &temporary);
    const auto start = std::chrono::steady_clock::now();
    for (int k = count - outs; clear != 0 && k < count; ++k) {
      const Tensor& out = call.values[k].toTensor();
      std::memset(out.mutable_data_ptr(), 0, out.nbytes());
    }
    function(context, {stack.data(), stack.size()});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (seconds != nullptr && (i == 0 || taken.count() < *seconds)) *seconds = taken.count();
    error = context.failure_state();
  }
  for (int i = count - outs; i < count; ++i) {
    const Tensor& out = call.values[i].toTensor();
    for (int k = 0; k < arguments[i].rank; ++k) arguments[i].sizes[k] = out.size(k);
  }
  return static_cast<int32_t>(error);
}
}
