#include <set>

#include "inspect.h"
#include "interpose.h"

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

void dump_step(const Request& request, const Package& package, const Session& training,
               std::vector<Array>& batch, Trace& trace) {
  set_stage(Stage::kDump);
  Dumper dumper(request, package, trace);
  dumper.pass(Stage::kDump, training, batch);
}

}  // namespace graphcheck
