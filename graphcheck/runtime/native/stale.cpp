#include <algorithm>
#include <utility>

#include "inspect.h"
#include "interpose.h"
#include "ranges.h"

namespace graphcheck {
namespace {

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

  using Contents = std::vector<std::vector<uint8_t>>;  // of every output

  static Contents contents(const Memory& memory) {
    Contents result;
    for (const auto& held : memory.outputs) {
      const auto* data = static_cast<const uint8_t*>(held.tensor.const_data_ptr());
      result.emplace_back(data, data + held.tensor.nbytes());
    }
    return result;
  }

  Error probe(const Instruction& instruction, Arguments arguments, const Memory& memory) {
    Contents before;
    for (const auto& range : memory.whole) before.emplace_back(range.begin, range.end);
    const auto run_on = [&](uint8_t byte) {
      for (size_t i = 0; i < before.size(); ++i) {
        std::memcpy(memory.whole[i].begin, before[i].data(), before[i].size());
      }
      fill(memory, byte);
      return invoke(instruction, arguments);
    };
    std::vector<Contents> results;
    for (const uint8_t byte : {kSmallByte, kLargeByte, kNanByte}) {
      const Error error = run_on(byte);
      if (error != Error::Ok) return error;
      results.push_back(contents(memory));
    }
    Contents& last = results[2];
    Finding finding{static_cast<int32_t>(position.instruction), false, {}, {}};
    if (results[0] != last || results[1] != last) {
      // Once more on the same pattern: what differs then, too, is random and cannot be judged.
      const Error error = run_on(kNanByte);
      if (error != Error::Ok) return error;
      Contents again = contents(memory);
      finding.random = again != last;
      last = std::move(again);
    }
    for (size_t i = 0; i < memory.outputs.size(); ++i) {
      const bool stale = !finding.random && (results[0][i] != last[i] || results[1][i] != last[i]);
      finding.outputs.push_back(
          {memory.outputs[i].value, stale, false, hash_bytes(last[i].data(), last[i].size())});
    }
    if (finding.random) finding.replay = std::move(last);
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

}  // namespace

void detect_stale(const Request& request, const Package& package, const Session& training,
                  std::vector<Array>& batch, Trace& trace) {
  set_stage(Stage::kInspect);
  StaleDetector detector(request, package);
  detector.detect(training, batch);
  detector.write(trace);
  trace.write(Record('J'));
}

}  // namespace graphcheck
