#include <algorithm>
#include <set>
#include <utility>

#include "inspect.h"
#include "interpose.h"
#include "ranges.h"

namespace graphcheck {
namespace {

class Dumper : public Inspector {
 public:
  Dumper(const Request& request, const Package& package, Trace& trace)
      : Inspector(request, package),
        trace_(trace),
        only_(request.dump_only.begin(), request.dump_only.end()) {}

 protected:
  Error call(const Instruction& instruction, Arguments arguments) override {
    if (!only_.empty() && only_.count(static_cast<int32_t>(position.instruction)) == 0) {
      return invoke(instruction, arguments);
    }
    const std::set<int32_t> reads(instruction.reads.begin(), instruction.reads.end());
    Record record('D');
    record.put(static_cast<int32_t>(position.step));
    record.put(static_cast<int32_t>(position.instruction));
    record.put(static_cast<uint32_t>(arguments.size()));
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool given = i < instruction.args.size() && reads.count(instruction.args[i]) > 0;
      put_argument(record, *arguments[i], given);
    }
    const std::vector<Watched> watched = watch_memory(instruction, arguments);
    const Error error = invoke(instruction, arguments);
    if (error != Error::Ok) return error;
    const auto outputs = tensors(instruction, arguments, instruction.writes);
    record.put(static_cast<uint32_t>(outputs.size()));
    for (const auto& held : outputs) {
      record.put(held.value);
      put_tensor(record, held.tensor);
    }
    const std::set<int32_t> changed = changed_of(watched);
    record.put(static_cast<uint32_t>(changed.size()));
    for (const int32_t value : changed) record.put(value);
    trace_.write(record);
    return Error::Ok;
  }

 private:
  // A range the instruction may not write: an input, or what lies beside its outputs (kBeside).
  struct Watched {
    int32_t value;
    Range range;
    uint64_t hash;
  };
  static constexpr int32_t kBeside = -1;
  static constexpr size_t kMargin = 512;

  std::vector<Watched> watch_memory(const Instruction& instruction, Arguments arguments) const {
    std::vector<Range> written;
    for (const auto& held : tensors(instruction, arguments, instruction.writes)) {
      auto* data = static_cast<uint8_t*>(held.tensor.mutable_data_ptr());
      const uint64_t planned = request().values[static_cast<size_t>(held.value)].capacity;
      const size_t size = std::max<size_t>(planned, held.tensor.nbytes());
      if (data != nullptr && size > 0) written.push_back({data, data + size});
    }
    std::vector<Watched> watched;
    const auto add = [&](int32_t value, Range whole) {
      std::vector<Range> parts{whole};
      for (const auto& hole : written) parts = without(parts, hole);
      for (const auto& part : parts) watched.push_back({value, part, hash_of(part)});
    };
    for (const auto& held : tensors(instruction, arguments, instruction.reads)) {
      auto* data = static_cast<uint8_t*>(held.tensor.mutable_data_ptr());
      if (data != nullptr && held.tensor.nbytes() > 0) {
        add(held.value, {data, data + held.tensor.nbytes()});
      }
    }
    for (const auto& range : written) {
      for (const auto& span : memory()) {
        if (range.begin < span.begin() || span.end() < range.end) continue;
        const size_t before =
            std::min<size_t>(kMargin, static_cast<size_t>(range.begin - span.begin()));
        const size_t after = std::min<size_t>(kMargin, static_cast<size_t>(span.end() - range.end));
        add(kBeside, {range.begin - before, range.begin});
        add(kBeside, {range.end, range.end + after});
      }
    }
    return watched;
  }

  static uint64_t hash_of(const Range& range) {
    return hash_bytes(range.begin, static_cast<size_t>(range.end - range.begin));
  }

  // The inputs that were written into; kBeside alone when it was only what lies beside an output.
  static std::set<int32_t> changed_of(const std::vector<Watched>& watched) {
    std::set<int32_t> changed;
    for (const auto& entry : watched) {
      if (hash_of(entry.range) != entry.hash) changed.insert(entry.value);
    }
    if (changed.size() > 1) changed.erase(kBeside);
    return changed;
  }

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

void dump_step(const Request& request, const Package& package, const Session& training,
               std::vector<Array>& batch, Trace& trace) {
  set_stage(Stage::kDump);
  Dumper dumper(request, package, trace);
  dumper.pass(Stage::kDump, training, batch);
}

}  // namespace graphcheck
