#include "inspect.h"

#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace graphcheck {
namespace {

using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::OpFunction;
using executorch::runtime::TensorMeta;
using Arguments = Span<EValue*>;

struct Held {
  int32_t value;
  Tensor tensor;
};

class Inspector;
Inspector* active = nullptr;
void stand_in(KernelRuntimeContext& context, Arguments arguments);

// A second session of the program whose kernels are all `stand_in`: it is called with the live
// arguments of each instruction and calls the runtime's own kernel as often as it likes.
class Inspector {
 public:
  Inspector(const Request& request, const Program& program)
      : request_(request),
        kernels_(stand_ins(request)),
        session_(program, request.method, Fill::kZero, kernels_) {}
  virtual ~Inspector() = default;
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  void pass(Stage stage, const Session& training, std::vector<Array>& batch) {
    active = this;
    session_.copy_memory(training);
    session_.set_inputs(request_.input_indices, batch);
    session_.run(stage, [this](int32_t index) { return next(index); });
    active = nullptr;
  }

  void on_call(KernelRuntimeContext& context, Arguments arguments) {
    const auto index = static_cast<size_t>(position.instruction);
    const Instruction& instruction = request_.instructions.at(index);
    for (size_t i = 0; i < arguments.size() && i < instruction.args.size(); ++i) {
      seen_[instruction.args[i]] = arguments[i];
    }
    const Error error = call(instruction, arguments);
    if (error != Error::Ok) context.fail(error);
  }

 protected:
  virtual Error call(const Instruction& instruction, Arguments arguments) = 0;

  const Request& request() const { return request_; }

  // The runtime's own kernel, once.
  Error invoke(const Instruction& instruction, Arguments arguments) {
    auto found = resolved_.find(&instruction);
    if (found == resolved_.end()) {
      const auto kernel = resolve(instruction.op, arguments);
      if (!kernel.ok()) return kernel.error();
      found = resolved_.emplace(&instruction, *kernel).first;
    }
    KernelRuntimeContext context(nullptr, session_.temp_allocator());
    found->second(context, arguments);
    session_.temp_allocator()->reset();
    return context.failure_state();
  }

  // The tensors among the arguments that have one of these value indices, lists unfolded.
  std::vector<Held> tensors(const Instruction& instruction, Arguments arguments,
                            const std::vector<int32_t>& wanted) const {
    std::vector<Held> found;
    std::set<int32_t> left(wanted.begin(), wanted.end());
    const auto add = [&](int32_t value, const Tensor& tensor) {
      if (left.erase(value) > 0) found.push_back({value, tensor});
    };
    for (size_t i = 0; i < arguments.size() && i < instruction.args.size(); ++i) {
      const int32_t index = instruction.args[i];
      const EValue& argument = *arguments[i];
      const bool whole = left.count(index) > 0;
      const auto& items = request_.values[static_cast<size_t>(index)].items;
      if (argument.isTensor()) {
        add(index, argument.toTensor());
      } else if (argument.isTensorList()) {
        const auto list = argument.toTensorList();
        for (size_t k = 0; k < list.size() && k < items.size(); ++k) {
          if (whole) left.insert(items[k]);
          add(items[k], list[k]);
        }
      } else if (argument.isListOptionalTensor()) {
        const auto list = argument.toListOptionalTensor();
        for (size_t k = 0; k < list.size() && k < items.size(); ++k) {
          if (whole && items[k] >= 0) left.insert(items[k]);
          if (list[k].has_value()) add(items[k], *list[k]);
        }
      }
    }
    return found;
  }

 private:
  static std::vector<Kernel> stand_ins(const Request& request) {
    std::set<std::string> seen;
    std::vector<Kernel> kernels;
    for (const auto& instruction : request.instructions) {
      if (instruction.kind == Kind::kKernel && seen.insert(instruction.op).second) {
        kernels.emplace_back(instruction.op.c_str(), stand_in);
      }
    }
    return kernels;
  }

  // The runtime's own choice: a kernel for these dtypes and dim orders, else the fallback.
  static executorch::runtime::Result<OpFunction> resolve(const std::string& op,
                                                         Arguments arguments) {
    std::vector<TensorMeta> metas;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i]->isTensor()) continue;
      const Tensor& tensor = arguments[i]->toTensor();
      const auto order = tensor.dim_order();
      metas.emplace_back(
          tensor.scalar_type(),
          Span<executorch::aten::DimOrderType>(
              const_cast<executorch::aten::DimOrderType*>(order.data()), order.size()));
    }
    return executorch::runtime::get_op_function_from_registry(op.c_str(),
                                                              {metas.data(), metas.size()});
  }

  int32_t next(int32_t index) const {
    const auto& instruction = request_.instructions.at(static_cast<size_t>(index));
    if (instruction.kind != Kind::kJumpFalse) return index + 1;
    const auto found = seen_.find(instruction.args.at(0));
    if (found == seen_.end()) {
      throw Failure{Stage::kInspect, Error::NotSupported, "a jump on a value no kernel computes"};
    }
    const EValue& condition = *found->second;
    if (condition.isBool()) return condition.toBool() ? index + 1 : instruction.target;
    if (condition.isTensor() && condition.toTensor().scalar_type() == ScalarType::Bool) {
      const auto* data = static_cast<const bool*>(condition.toTensor().const_data_ptr());
      const bool all =
          std::all_of(data, data + condition.toTensor().numel(), [](bool value) { return value; });
      return all ? index + 1 : instruction.target;
    }
    throw Failure{Stage::kInspect, Error::NotSupported, "a jump on a value that is not a bool"};
  }

  using ScalarType = executorch::aten::ScalarType;
  const Request& request_;
  std::vector<Kernel> kernels_;
  Session session_;
  std::map<const Instruction*, OpFunction> resolved_;
  std::map<int32_t, EValue*> seen_;
};

void stand_in(KernelRuntimeContext& context, Arguments arguments) {
  active->on_call(context, arguments);
}

struct Range {
  uint8_t* begin;
  uint8_t* end;
};

// What of `ranges` lies outside of `hole`.
std::vector<Range> without(const std::vector<Range>& ranges, Range hole) {
  std::vector<Range> rest;
  for (const auto& range : ranges) {
    if (hole.end <= range.begin || range.end <= hole.begin) {
      rest.push_back(range);
      continue;
    }
    if (range.begin < hole.begin) rest.push_back({range.begin, hole.begin});
    if (hole.end < range.end) rest.push_back({hole.end, range.end});
  }
  return rest;
}

uint64_t hash_bytes(const uint8_t* data, size_t size) {
  uint64_t hash = 0x9e3779b97f4a7c15U ^ size;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
  };
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    uint64_t word;
    std::memcpy(&word, data + at, 8);
    mix(word);
  }
  uint64_t tail = 0;
  if (at < size) std::memcpy(&tail, data + at, size - at);
  mix(tail);
  return hash;
}

class StaleDetector : public Inspector {
 public:
  using Inspector::Inspector;

  // First pass: each instruction runs on the same inputs with several patterns in its output
  // memory. Second pass: another pattern all the way, to see what a difference reaches.
  void detect(const Session& training, std::vector<Array>& batch) {
    pass(Stage::kInspect, training, batch);
    second_ = true;
    pass(Stage::kInspect, training, batch);
    if (at_ != findings_.size()) changed_path();
  }

  void write(Trace& trace) const {
    for (const auto& finding : findings_) {
      Record record('I');
      record.put(finding.instruction);
      record.put(static_cast<uint8_t>(finding.random));
      record.put(static_cast<uint32_t>(finding.outputs.size()));
      for (const auto& output : finding.outputs) {
        record.put(output.value);
        record.put(static_cast<uint8_t>(output.stale));
        record.put(static_cast<uint8_t>(output.reached));
      }
      trace.write(record);
    }
  }

 protected:
  Error call(const Instruction& instruction, Arguments arguments) override {
    Memory memory = memory_of(instruction, arguments);
    if (memory.outputs.empty()) return invoke(instruction, arguments);
    return second_ ? replay(instruction, arguments, memory) : probe(instruction, arguments, memory);
  }

 private:
  struct Output {
    int32_t value;
    bool stale;    // depends on what its own memory held before
    bool reached;  // differs between the passes
    uint64_t hash;
  };
  struct Finding {
    int32_t instruction;
    bool random;
    std::vector<Output> outputs;
    std::vector<std::vector<uint8_t>> replay;  // what a random instruction gave
  };
  struct Memory {
    std::vector<Held> outputs;
    std::vector<Range> whole;     // all that the outputs may take
    std::vector<Range> fillable;  // what of it is no input of the same instruction
  };

  Memory memory_of(const Instruction& instruction, Arguments arguments) const {
    Memory memory;
    for (auto& held : tensors(instruction, arguments, instruction.writes)) {
      auto* data = static_cast<uint8_t*>(held.tensor.mutable_data_ptr());
      const uint64_t planned = request().values[static_cast<size_t>(held.value)].capacity;
      const size_t capacity = std::max<size_t>(planned, held.tensor.nbytes());
      if (data == nullptr || capacity == 0) continue;
      memory.whole.push_back({data, data + capacity});
      memory.outputs.push_back(held);
    }
    memory.fillable = memory.whole;
    for (const auto& held : tensors(instruction, arguments, instruction.reads)) {
      auto* data = static_cast<uint8_t*>(held.tensor.mutable_data_ptr());
      if (data == nullptr) continue;
      memory.fillable = without(memory.fillable, {data, data + held.tensor.nbytes()});
    }
    return memory;
  }

  static void fill(const Memory& memory, uint8_t byte) {
    for (const auto& range : memory.fillable) {
      std::memset(range.begin, byte, static_cast<size_t>(range.end - range.begin));
    }
  }

  static std::vector<std::vector<uint8_t>> contents(const Memory& memory) {
    std::vector<std::vector<uint8_t>> result;
    for (const auto& held : memory.outputs) {
      const auto* data = static_cast<const uint8_t*>(held.tensor.const_data_ptr());
      result.emplace_back(data, data + held.tensor.nbytes());
    }
    return result;
  }

  Error probe(const Instruction& instruction, Arguments arguments, const Memory& memory) {
    std::vector<std::vector<uint8_t>> before;
    for (const auto& range : memory.whole) before.emplace_back(range.begin, range.end);
    std::vector<std::vector<std::vector<uint8_t>>> results;
    // NaN comes twice: what differs between equal runs is random, and cannot be judged.
    for (const uint8_t byte : {kSmallByte, kLargeByte, kNanByte, kNanByte}) {
      for (size_t i = 0; i < before.size(); ++i) {
        std::memcpy(memory.whole[i].begin, before[i].data(), before[i].size());
      }
      fill(memory, byte);
      const Error error = invoke(instruction, arguments);
      if (error != Error::Ok) return error;
      results.push_back(contents(memory));
    }
    Finding finding{static_cast<int32_t>(position.instruction), results[2] != results[3], {}, {}};
    for (size_t i = 0; i < memory.outputs.size(); ++i) {
      const auto& last = results[3][i];
      const bool stale = !finding.random && (results[0][i] != last || results[1][i] != last);
      finding.outputs.push_back(
          {memory.outputs[i].value, stale, false, hash_bytes(last.data(), last.size())});
    }
    if (finding.random) finding.replay = std::move(results[3]);
    findings_.push_back(std::move(finding));
    return Error::Ok;
  }

  Error replay(const Instruction& instruction, Arguments arguments, const Memory& memory) {
    if (at_ >= findings_.size() || findings_[at_].instruction != position.instruction ||
        findings_[at_].outputs.size() != memory.outputs.size()) {
      changed_path();
    }
    Finding& finding = findings_[at_++];
    fill(memory, kLargeByte);
    const Error error = invoke(instruction, arguments);
    if (error != Error::Ok) return error;
    for (size_t i = 0; i < memory.outputs.size(); ++i) {
      const auto& tensor = memory.outputs[i].tensor;
      auto* data = static_cast<uint8_t*>(tensor.mutable_data_ptr());
      if (finding.random) {
        const auto& given = finding.replay[i];
        std::memcpy(data, given.data(), std::min(given.size(), tensor.nbytes()));
      } else {
        finding.outputs[i].reached = hash_bytes(data, tensor.nbytes()) != finding.outputs[i].hash;
      }
    }
    return Error::Ok;
  }

  [[noreturn]] static void changed_path() {
    throw Failure{Stage::kInspect, Error::NotSupported,
                  "two passes on the same inputs run different instructions"};
  }

  bool second_ = false;
  size_t at_ = 0;
  std::vector<Finding> findings_;
};

class Dumper : public Inspector {
 public:
  Dumper(const Request& request, const Program& program, Trace& trace)
      : Inspector(request, program),
        trace_(trace),
        only_(request.dump_only.begin(), request.dump_only.end()) {}

 protected:
  Error call(const Instruction& instruction, Arguments arguments) override {
    if (!only_.empty() && only_.count(static_cast<int32_t>(position.instruction)) == 0) {
      return invoke(instruction, arguments);
    }
    const std::set<int32_t> reads(instruction.reads.begin(), instruction.reads.end());
    Record record('D');
    record.put(static_cast<int32_t>(position.instruction));
    record.put(static_cast<uint32_t>(arguments.size()));
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool given = i < instruction.args.size() && reads.count(instruction.args[i]) > 0;
      put_argument(record, *arguments[i], given);
    }
    const Error error = invoke(instruction, arguments);
    if (error != Error::Ok) return error;
    const auto outputs = tensors(instruction, arguments, instruction.writes);
    record.put(static_cast<uint32_t>(outputs.size()));
    for (const auto& held : outputs) {
      record.put(held.value);
      put_tensor(record, held.tensor);
    }
    trace_.write(record);
    return Error::Ok;
  }

 private:
  // Tags as in wire.py. What is written only is not dumped; what the plan knows is not repeated.
  static void put_argument(Record& record, const EValue& value, bool given) {
    if (value.isInt()) {
      record.put('i').put(value.toInt());
    } else if (value.isDouble()) {
      record.put('d').put(value.toDouble());
    } else if (value.isBool()) {
      record.put('b').put(static_cast<uint8_t>(value.toBool()));
    } else if (value.isIntList()) {
      const auto list = value.toIntList();
      record.put('l').put(static_cast<uint32_t>(list.size()));
      for (const auto item : list) record.put(static_cast<int64_t>(item));
    } else if (!given) {
      record.put('-');
    } else if (value.isTensor()) {
      record.put('t');
      put_tensor(record, value.toTensor());
    } else if (value.isTensorList()) {
      const auto list = value.toTensorList();
      record.put('T').put(static_cast<uint32_t>(list.size()));
      for (const auto& item : list) {
        record.put('t');
        put_tensor(record, item);
      }
    } else if (value.isListOptionalTensor()) {
      const auto list = value.toListOptionalTensor();
      record.put('T').put(static_cast<uint32_t>(list.size()));
      for (const auto& item : list) {
        record.put(item.has_value() ? 't' : '-');
        if (item.has_value()) put_tensor(record, *item);
      }
    } else {
      record.put('-');
    }
  }

  Trace& trace_;
  std::set<int32_t> only_;
};

}  // namespace

void detect_stale(const Request& request, const Program& program, const Session& training,
                  std::vector<Array>& batch, Trace& trace) {
  set_stage(Stage::kInspect);
  StaleDetector detector(request, program);
  detector.detect(training, batch);
  detector.write(trace);
  trace.write(Record('J'));
}

void dump_step(const Request& request, const Program& program, const Session& training,
               std::vector<Array>& batch, Trace& trace) {
  set_stage(Stage::kDump);
  Dumper dumper(request, program, trace);
  dumper.pass(Stage::kDump, training, batch);
}

}  // namespace graphcheck
