// A sound backward of max_pool2d for contiguous float tensors: it clears its output first.
#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <cstring>

namespace {

using namespace executorch::runtime;

void pool_backward(KernelRuntimeContext&, Span<EValue*> arguments) {
  const auto& gradient = arguments[0]->toTensor();
  const auto& indices = arguments[7]->toTensor();
  auto& out = arguments[8]->toTensor();
  const auto* from = static_cast<const float*>(gradient.const_data_ptr());
  const auto* index = static_cast<const int64_t*>(indices.const_data_ptr());
  auto* to = static_cast<float*>(out.mutable_data_ptr());
  const ssize_t plane_in = gradient.size(2) * gradient.size(3);
  const ssize_t plane_out = out.size(2) * out.size(3);
  const ssize_t planes = gradient.size(0) * gradient.size(1);
  std::memset(to, 0, out.nbytes());
  for (ssize_t plane = 0; plane < planes; ++plane) {
    for (ssize_t i = plane * plane_in; i < (plane + 1) * plane_in; ++i) {
      to[plane * plane_out + index[i]] += from[i];
    }
  }
}

const auto registered = register_kernel(
    Kernel("aten::max_pool2d_with_indices_backward.grad_input",
           KernelKey("v1/6;0,1,2,3|6;0,1,2,3|4;0,1,2,3|6;0,1,2,3|6;0,1,2,3"), pool_backward));

}  // namespace
