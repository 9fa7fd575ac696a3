#include "interpose.h"

#include <algorithm>
#include <set>

namespace graphcheck {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::TensorMeta;

Inspector* active = nullptr;

void stand_in(KernelRuntimeContext& context, Arguments arguments) {
  active->on_call(context, arguments);
}

std::vector<Kernel> stand_ins(const Request& request) {
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
executorch::runtime::Result<OpFunction> resolve(const std::string& op, Arguments arguments) {
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

}  // namespace

// `kernels_` is told to the method of `session_`, so it comes first.
Inspector::Inspector(const Request& request, const Package& package)
    : request_(request),
      kernels_(stand_ins(request)),
      session_(package, request.method, Fill::kZero, kernels_) {}

void Inspector::pass(Stage stage, const Session& training, std::vector<Array>& batch) {
  active = this;
  session_.copy_memory(training);
  session_.set_inputs(request_.input_indices, batch);
  session_.run(stage, [this](int32_t index) { return next(index); });
  active = nullptr;
}

void Inspector::on_call(KernelRuntimeContext& context, Arguments arguments) {
  const auto index = static_cast<size_t>(position.instruction);
  const Instruction& instruction = request_.instructions.at(index);
  for (size_t i = 0; i < arguments.size() && i < instruction.args.size(); ++i) {
    seen_[instruction.args[i]] = arguments[i];
  }
  const Error error = call(instruction, arguments);
  if (error != Error::Ok) context.fail(error);
}

Error Inspector::invoke(const Instruction& instruction, Arguments arguments) {
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

std::vector<Held> Inspector::tensors(const Instruction& instruction, Arguments arguments,
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

int32_t Inspector::next(int32_t index) const {
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

}  // namespace graphcheck
