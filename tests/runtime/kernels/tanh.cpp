// Replaces tanh of contiguous float matrices by kernels with a fault, chosen by MODE.
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <cmath>
#include <cstdlib>

namespace {

using namespace executorch::runtime;

enum Mode { kCrash = 1, kHang = 2, kPartial = 3, kFail = 4, kAbort = 5, kMinimum = 6 };

void faulty(KernelRuntimeContext& context, Span<EValue*> arguments) {
  const auto& in = arguments[0]->toTensor();
  auto& out = arguments[1]->toTensor();
  const auto* from = static_cast<const float*>(in.const_data_ptr());
  auto* to = static_cast<float*>(out.mutable_data_ptr());
  const ssize_t count = in.numel();
  if (MODE == kCrash) {
    volatile int* nowhere = nullptr;
    *nowhere = 1;
  } else if (MODE == kHang) {
    for (volatile bool on = true; on;) {
    }
  } else if (MODE == kFail) {
    context.fail(Error::NotSupported);
    return;
  } else if (MODE == kAbort) {
    std::abort();
  }
  if (resize_tensor(out, in.sizes()) != Error::Ok) {
    context.fail(Error::Internal);
    return;
  }
  // kPartial leaves the last entry as it was; kMinimum is swallowed by everything but a value
  // far below zero.
  for (ssize_t i = 0; i < count - (MODE == kPartial ? 1 : 0); ++i) {
    const float value = std::tanh(from[i]);
    to[i] = MODE == kMinimum ? std::fmin(value, to[i]) : value;
  }
}

const auto registered =
    register_kernel(Kernel("aten::tanh.out", KernelKey("v1/6;0,1|6;0,1|6;0,1"), faulty));

}  // namespace
