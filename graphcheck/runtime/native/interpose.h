// Standing between the runtime and its kernels, to look at single instructions.
#pragma once

#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <map>
#include <string>
#include <vector>

#include "session.h"
#include "wire.h"

namespace graphcheck {

using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::OpFunction;
using Arguments = Span<EValue*>;

struct Held {
  int32_t value;
  Tensor tensor;
};

// A second session of the program whose kernels are all stand-ins: `call` gets the live arguments
// of each instruction and may call the runtime's own kernel as often as it likes.
class Inspector {
 public:
  Inspector(const Request& request, const Package& package);
  virtual ~Inspector() = default;
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  // Runs all instructions once, from the memory of `training`, which stays as it is.
  void pass(Stage stage, const Session& training, std::vector<Array>& batch);

  void on_call(KernelRuntimeContext& context, Arguments arguments);

 protected:
  virtual Error call(const Instruction& instruction, Arguments arguments) = 0;

  const Request& request() const { return request_; }
  const std::vector<Span<uint8_t>>& memory() const { return session_.memory(); }

  // The runtime's own kernel, once.
  Error invoke(const Instruction& instruction, Arguments arguments);

  // The tensors among the arguments that have one of these value indices, lists unfolded.
  std::vector<Held> tensors(const Instruction& instruction, Arguments arguments,
                            const std::vector<int32_t>& wanted) const;

 private:
  int32_t next(int32_t index) const;

  const Request& request_;
  std::vector<Kernel> kernels_;
  Session session_;
  std::map<const Instruction*, OpFunction> resolved_;
  std::map<int32_t, EValue*> seen_;
};

}  // namespace graphcheck
