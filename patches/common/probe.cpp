#include "probe.h"

#include <executorch/runtime/core/memory_allocator.h>

#include <cmath>
#include <cstdlib>

namespace graphcheck::kernels {
namespace {

// Temporary memory for one call. Kept apart from the runtime's own, which is not set up yet.
class Temporary : public executorch::runtime::MemoryAllocator {
 public:
  Temporary() : MemoryAllocator(0, nullptr) {}
  ~Temporary() override { Temporary::reset(); }
  void* allocate(size_t size, size_t alignment = kDefaultAlignment) override {
    const size_t room = alignment < 16 ? 16 : alignment;
    char* memory = static_cast<char*>(std::malloc(size + room));
    if (memory == nullptr) return nullptr;
    blocks_.push_back(memory);
    return memory + (room - reinterpret_cast<uintptr_t>(memory) % room) % room;
  }
  void reset() override {
    for (void* block : blocks_) std::free(block);
    blocks_.clear();
  }

 private:
  std::vector<void*> blocks_;
};

template <typename T>
void put(void* memory, size_t index, double value) {
  static_cast<T*>(memory)[index] = static_cast<T>(value);
}

// Writes or reads one number of any dtype that kernels here know.
void write(ScalarType type, void* memory, size_t index, double value) {
  switch (type) {
    case ScalarType::Long:
      return put<int64_t>(memory, index, value);
    case ScalarType::Bool:
      return put<bool>(memory, index, value);
    default:
      with_floating(type, [&](auto zero) {
        using T = decltype(zero);
        static_cast<T*>(memory)[index] = static_cast<T>(static_cast<Wide<T>>(value));
      });
  }
}

double read(ScalarType type, const void* memory, size_t index) {
  double value = 0;
  if (type == ScalarType::Long)
    return static_cast<double>(static_cast<const int64_t*>(memory)[index]);
  if (type == ScalarType::Bool) return static_cast<const bool*>(memory)[index];
  with_floating(type, [&](auto zero) {
    using T = decltype(zero);
    value = static_cast<double>(static_cast<Wide<T>>(static_cast<const T*>(memory)[index]));
  });
  return value;
}

// Values hold lists by pointer; up to ExecuTorch 1.0 they took them by value.
template <typename List>
EValue boxed(List& list) {
  if constexpr (std::is_constructible_v<EValue, List*>) {
    return EValue(&list);
  } else {
    return EValue(list);
  }
}

template <typename Handed = Stack>
Handed stack_of(std::vector<EValue*>& values) {
  if constexpr (std::is_pointer_v<Handed>) {
    return values.data();
  } else {
    return Handed{values.data(), values.size()};
  }
}

}  // namespace

Probe::Held& Probe::hold(ScalarType type, const std::vector<int32_t>& sizes) {
  Held& held = tensors_.emplace_back();
  size_t count = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    held.sizes[i] = sizes[i];
    held.order[i] = static_cast<executorch::aten::DimOrderType>(i);
    held.strides[i] = static_cast<executorch::aten::StridesType>(count);
    count *= static_cast<size_t>(sizes[i]);
  }
  held.bytes = count * 8;
  held.data.assign(count + 1, 0.0);
  held.impl.emplace(type, static_cast<ssize_t>(sizes.size()), held.sizes, held.data.data(),
                    held.order, held.strides);
  return held;
}

void Probe::tensor(ScalarType type, std::vector<int32_t> sizes, std::vector<double> values) {
  Held& held = hold(type, sizes);
  const auto count = static_cast<size_t>(held.impl->numel());
  for (size_t i = 0; i < count; ++i) write(type, held.data.data(), i, values[i % values.size()]);
  values_.emplace_back(Tensor(&*held.impl));
}

void Probe::output(ScalarType type, std::vector<int32_t> sizes) {
  Held& held = hold(type, sizes);
  outputs_.push_back(&held);
  values_.emplace_back(Tensor(&*held.impl));
}

void Probe::integers(std::vector<int64_t> list) {
  List& kept = lists_.emplace_back();
  for (const int64_t value : list) kept.values.emplace_back(value);
  kept.integers.resize(list.size() + 1);
  for (auto& value : kept.values) kept.pointers.push_back(&value);
  // A list of none must still point somewhere.
  kept.pointers.push_back(nullptr);
  kept.boxed.emplace(kept.pointers.data(), kept.integers.data(), static_cast<int>(list.size()));
  values_.push_back(boxed(*kept.boxed));
}

void Probe::flags(std::initializer_list<bool> list) {
  List& kept = lists_.emplace_back();
  size_t count = 0;
  for (const bool value : list) kept.flags[count++] = value;
  kept.boxed_flags.emplace(kept.flags, count);
  values_.push_back(boxed(*kept.boxed_flags));
}

void Probe::list_of(ScalarType type, std::vector<int32_t> sizes, std::vector<double> values) {
  tensor(type, std::move(sizes), std::move(values));
  List& kept = lists_.emplace_back();
  kept.values.push_back(values_.back());
  kept.pointers.push_back(&kept.values.back());
  kept.boxed_tensors.emplace(kept.pointers.data(), kept.tensors, 1);
  values_.pop_back();
  values_.push_back(boxed(*kept.boxed_tensors));
}

bool Probe::call(OpFunction function, std::vector<std::vector<double>>& results) {
  for (Held* held : outputs_) {
    const ScalarType type = held->impl->scalar_type();
    // A kernel that adds to what it finds must not find zeros.
    std::memset(held->data.data(), is_floating(type) ? 0xff : 0, held->bytes);
  }
  std::vector<EValue*> stack;
  for (auto& value : values_) stack.push_back(&value);
  // The place of the result, which kernels do not look at.
  stack.push_back(stack.back());
  Temporary temporary;
  Context context(nullptr, &temporary);
  function(context, stack_of(stack));
  if (context.failure_state() != Error::Ok) return false;
  for (Held* held : outputs_) {
    auto& numbers = results.emplace_back();
    const auto count = static_cast<size_t>(held->impl->numel());
    for (size_t i = 0; i < count; ++i) {
      numbers.push_back(read(held->impl->scalar_type(), held->data.data(), i));
    }
  }
  return true;
}

void Probe::run(double tolerance) {
  std::vector<std::vector<double>> expected;
  std::vector<std::vector<double>> found;
  const bool same = call(own_, expected) && call(stock_, found) && expected.size() == found.size();
  agrees_ = agrees_ && same;
  for (size_t k = 0; same && k < expected.size(); ++k) {
    double largest = 0;
    for (const double value : expected[k]) largest = std::fmax(largest, std::fabs(value));
    agrees_ = agrees_ && expected[k].size() == found[k].size();
    for (size_t i = 0; agrees_ && i < expected[k].size(); ++i) {
      // Written so that a NaN is no agreement.
      agrees_ = std::fabs(found[k][i] - expected[k][i]) <= tolerance * largest;
    }
  }
  forget();
}

void Probe::judge(bool (*right)(const std::vector<std::vector<double>>&)) {
  std::vector<std::vector<double>> found;
  agrees_ = agrees_ && call(stock_, found) && right(found);
  forget();
}

void Probe::forget() {
  values_.clear();
  outputs_.clear();
  lists_.clear();
  tensors_.clear();
}

}  // namespace graphcheck::kernels
