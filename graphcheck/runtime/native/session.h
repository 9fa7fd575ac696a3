// A loaded method with memory of our own.
#pragma once

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "watch.h"
#include "wire.h"

namespace graphcheck {

using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Kernel;
using executorch::runtime::Method;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Program;
using executorch::runtime::Span;

// Ends the run with a record of what failed.
struct Failure {
  Stage stage;
  Error error;
  std::string detail;
};

inline void require(Error error, Stage stage, const std::string& detail = "") {
  if (error != Error::Ok) throw Failure{stage, error, detail};
}

// Every byte has one value, so that the pattern is the same at any offset and for any dtype.
// 0xff is NaN in every floating dtype; 0x7b is large and finite in all of them (f16 61280,
// f32 1.3e36), 0xfb the same below zero.
constexpr uint8_t kNanByte = 0xff;
constexpr uint8_t kLargeByte = 0x7b;
constexpr uint8_t kSmallByte = 0xfb;

inline uint8_t fill_byte(Fill fill) {
  switch (fill) {
    case Fill::kNan:
      return kNanByte;
    case Fill::kJunk:
      return kLargeByte;
    default:
      return 0;
  }
}

// A program and the weights that are kept beside it, if any. Both outlive what is loaded from it.
struct Package {
  const Program& program;
  const NamedDataMap* weights;
};

class Session {
 public:
  // `kernels` are preferred to the runtime's own; they must outlive the session. With `owner`, all
  // planned memory but the first buffer (activations) is that session's: methods share their state.
  Session(const Package& package, const std::string& name, Fill fill,
          const std::vector<Kernel>& kernels = {}, const Session* owner = nullptr)
      : name_(name) {
    const auto meta = package.program.method_meta(name.c_str());
    require(meta.error(), Stage::kMethod);
    for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
      const auto size = meta->memory_planned_buffer_size(i);
      require(size.error(), Stage::kMethod);
      const auto bytes = static_cast<size_t>(*size);
      if (owner != nullptr && i > 0) {
        if (i >= owner->spans_.size() || owner->spans_[i].size() != bytes) {
          throw Failure{Stage::kMethod, Error::InvalidProgram,
                        name + " does not plan its shared memory as the training method does"};
        }
        spans_.push_back(owner->spans_[i]);
        continue;
      }
      auto* memory = static_cast<uint8_t*>(operator new(bytes + 1, kAlignment));
      memories_.emplace_back(memory);
      std::memset(memory, fill_byte(fill), bytes);
      spans_.emplace_back(memory, bytes);
    }
    planned_.emplace(Span<Span<uint8_t>>{spans_.data(), spans_.size()});
    manager_.emplace(&method_allocator_, &*planned_, &temp_allocator_);
    auto method = package.program.load_method(name.c_str(), &*manager_, nullptr, package.weights,
                                              nullptr, {kernels.data(), kernels.size()});
    require(method.error(), Stage::kMethod);
    method_.emplace(std::move(*method));
    provide_outputs();
  }

  Method& method() { return *method_; }
  const std::vector<Span<uint8_t>>& memory() const { return spans_; }
  executorch::runtime::MemoryAllocator* temp_allocator() { return &temp_allocator_; }

  // Weights, buffers and everything else as they are in `other`.
  void copy_memory(const Session& other) {
    for (size_t i = 0; i < spans_.size(); ++i) {
      if (spans_[i].size() > 0) {
        std::memcpy(spans_[i].data(), other.spans_[i].data(), spans_[i].size());
      }
    }
  }

  // Inputs live in the arena and are overwritten there: they are to be set before every step.
  void set_inputs(const std::vector<int32_t>& indices, std::vector<Array>& batch) {
    set_stage(Stage::kInputs);
    for (size_t i = 0; i < batch.size(); ++i) {
      Array& array = batch[i];
      TensorImpl impl(static_cast<executorch::aten::ScalarType>(array.dtype),
                      static_cast<ssize_t>(array.sizes.size()), array.sizes.data(),
                      array.data.data(), array.dim_order.data(), array.strides.data());
      require(method_->set_input(EValue(Tensor(&impl)), static_cast<size_t>(indices[i])),
              Stage::kInputs, "input " + std::to_string(indices[i]));
    }
  }

  // Runs every instruction; `next` tells which index follows the given one, -1 for unknown.
  template <typename Next>
  void run(Stage stage, Next&& next) {
    set_stage(stage);
    int32_t index = 0;
    while (true) {
      position.instruction = index;
      const Error error = step();
      if (error == Error::EndOfMethod) break;
      require(error, stage);
      index = next(index);
    }
    position.instruction = -1;
    require(restart(), stage);
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(uint8_t* memory) const { operator delete(memory, kAlignment); }
  };
  using Memory = std::unique_ptr<uint8_t, Release>;

  // The runtime marks running by single instructions as experimental.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  Error step() { return method_->step(); }
  Error restart() { return method_->reset_execution(); }
#pragma GCC diagnostic pop

  // Outputs that the memory plan left to the caller.
  void provide_outputs() {
    const auto meta = method_->method_meta();
    for (size_t i = 0; i < meta.num_outputs(); ++i) {
      if (!method_->get_output(i).isTensor()) continue;
      const auto info = meta.output_tensor_meta(i);
      if (!info.ok() || info->is_memory_planned() || info->nbytes() == 0) continue;
      outputs_.emplace_back(static_cast<uint8_t*>(operator new(info->nbytes(), kAlignment)));
      require(method_->set_output_data_ptr(outputs_.back().get(), info->nbytes(), i),
              Stage::kMethod);
    }
  }

  std::string name_;
  executorch::extension::MallocMemoryAllocator method_allocator_;
  executorch::extension::MallocMemoryAllocator temp_allocator_;
  std::vector<Memory> memories_;
  std::vector<Memory> outputs_;
  std::vector<Span<uint8_t>> spans_;
  std::optional<executorch::runtime::HierarchicalAllocator> planned_;
  std::optional<executorch::runtime::MemoryManager> manager_;
  std::optional<Method> method_;
};

// `lent`: the tensor stays as it is until the record is written.
inline void put_tensor(Record& record, const Tensor& tensor, bool lent = false) {
  record.put(static_cast<int8_t>(tensor.scalar_type()));
  record.put(static_cast<uint32_t>(tensor.dim()));
  for (const auto size : tensor.sizes()) record.put(static_cast<int32_t>(size));
  for (const auto dim : tensor.dim_order()) record.put(static_cast<uint8_t>(dim));
  const auto* data = tensor.const_data_ptr();
  const uint64_t size = data == nullptr ? 0 : tensor.nbytes();
  record.put(size);
  if (size == 0) return;
  if (lent) {
    record.borrowed(data, size);
  } else {
    record.bytes(data, size);
  }
}

}  // namespace graphcheck
