// What the kernels of this folder share: names of the runtime, arguments, types, and checks.
#pragma once

#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace graphcheck::kernels {

using executorch::aten::ArrayRef;
using executorch::aten::BFloat16;
using executorch::aten::Half;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::OpFunction;
using Context = executorch::runtime::KernelRuntimeContext;

// How the runtime hands over a call's values: a span in newer versions, a bare pointer in older.
template <typename Function>
struct StackOf;
template <typename Result, typename Second>
struct StackOf<Result (*)(Context&, Second)> {
  using type = Second;
};
template <template <typename> class Reference, typename Result, typename Second>
struct StackOf<Reference<Result(Context&, Second)>> {
  using type = Second;
};
using Stack = StackOf<OpFunction>::type;

// The values of a call, in the order of the operator's schema.
class Arguments {
 public:
  explicit Arguments(Stack stack) : stack_(stack) {}

  const Tensor& tensor(size_t index) const { return value(index).toTensor(); }
  Tensor& out(size_t index) const { return stack_[index]->toTensor(); }
  // Null where the call leaves the argument out.
  const Tensor* optional(size_t index) const {
    return value(index).isNone() ? nullptr : &value(index).toTensor();
  }
  bool has(size_t index) const { return !value(index).isNone(); }
  int64_t integer(size_t index) const { return value(index).toInt(); }
  bool flag(size_t index) const {
    const EValue& found = value(index);
    return found.isInt() ? found.toInt() != 0 : found.toBool();
  }
  double number(size_t index) const {
    const EValue& found = value(index);
    if (found.isInt()) return static_cast<double>(found.toInt());
    return found.isBool() ? static_cast<double>(found.toBool()) : found.toDouble();
  }
  ArrayRef<int64_t> integers(size_t index) const { return value(index).toIntList(); }
  EValue& value(size_t index) const { return *stack_[index]; }
  Stack stack() const { return stack_; }

 private:
  Stack stack_;
};

// The type to add up in: half types are widened, so that a sum is rounded once, at its end.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// Ends the kernel with InvalidArgument and a sentence in the runtime's log.
#define GRAPHCHECK_CHECK(context, condition, message) \
  ET_KERNEL_CHECK_MSG(context, condition, InvalidArgument, , message)
// The same for a helper that answers whether the call may go on.
#define GRAPHCHECK_REQUIRE(context, condition, message) \
  ET_KERNEL_CHECK_MSG(context, condition, InvalidArgument, false, message)

// Calls `body` with a value of the C++ type of a floating-point dtype; false for other dtypes.
template <typename Body>
bool with_floating(ScalarType type, Body&& body) {
  switch (type) {
    case ScalarType::Float:
      body(float{});
      return true;
    case ScalarType::Double:
      body(double{});
      return true;
    case ScalarType::Half:
      body(Half{});
      return true;
    case ScalarType::BFloat16:
      body(BFloat16{});
      return true;
    default:
      return false;
  }
}

inline bool is_floating(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Double || type == ScalarType::Half ||
         type == ScalarType::BFloat16;
}

inline bool is_half_type(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::BFloat16;
}

template <typename T>
const T* data_of(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <typename T>
T* mutable_data_of(Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

inline bool same_shape(const Tensor& one, const Tensor& other) {
  if (one.dim() != other.dim()) return false;
  for (ssize_t i = 0; i < one.dim(); ++i) {
    if (one.size(i) != other.size(i)) return false;
  }
  return true;
}

inline bool has_shape(const Tensor& tensor, std::initializer_list<int64_t> shape) {
  if (tensor.dim() != static_cast<ssize_t>(shape.size())) return false;
  ssize_t i = 0;
  for (const int64_t size : shape) {
    if (tensor.size(i++) != size) return false;
  }
  return true;
}

// Row-major in memory; a dim of one element may stand anywhere.
inline bool is_row_major(const Tensor& tensor) {
  int64_t expected = 1;
  for (ssize_t i = tensor.dim() - 1; i >= 0; --i) {
    if (tensor.size(i) != 1 && tensor.strides()[i] != expected) return false;
    expected *= tensor.size(i);
  }
  return true;
}

constexpr size_t kMaxDims = 16;

// Resizes an output; fails the call where its memory is too small or its shape is fixed.
inline bool resize(Context& context, Tensor& out, const executorch::aten::SizesType* sizes,
                   size_t rank) {
  const Error error =
      executorch::runtime::resize_tensor(out, ArrayRef<executorch::aten::SizesType>(sizes, rank));
  GRAPHCHECK_REQUIRE(context, error == Error::Ok, "the output cannot take the shape of the result");
  return true;
}

inline bool resize(Context& context, Tensor& out, std::initializer_list<int64_t> shape) {
  executorch::aten::SizesType sizes[kMaxDims];
  size_t rank = 0;
  for (const int64_t size : shape) sizes[rank++] = static_cast<executorch::aten::SizesType>(size);
  return resize(context, out, sizes, rank);
}

inline bool resize_as(Context& context, Tensor& out, const Tensor& like) {
  return resize(context, out, like.sizes().data(), static_cast<size_t>(like.dim()));
}

// Memory for the time of one call; null (and the call failed) when there is none.
template <typename T>
T* scratch(Context& context, int64_t count) {
  const auto bytes = static_cast<size_t>(count > 0 ? count : 1) * sizeof(T);
  const auto memory = context.allocate_temp(bytes);
  if (!memory.ok()) {
    context.fail(Error::MemoryAllocationFailed);
    return nullptr;
  }
  return static_cast<T*>(*memory);
}

}  // namespace graphcheck::kernels
