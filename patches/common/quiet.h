// Keeps the runtime's log still while a kernel is tried that may refuse.
#pragma once

#include <executorch/runtime/platform/platform.h>

#include <type_traits>

namespace executorch::runtime {
// ExecuTorch 0.6 has neither.
struct PalImpl;
const PalImpl* get_pal_impl();
}  // namespace executorch::runtime

namespace graphcheck::kernels {

// Where the log function cannot be exchanged, the log is not still.
template <typename Platform, typename = void>
class Silence {
 public:
  Silence() {}
};

// Registering another platform layer would itself be logged, so its log function is exchanged in
// place.
template <typename Platform>
class Silence<Platform, std::void_t<decltype(sizeof(Platform))>> {
 public:
  Silence() : platform_(const_cast<Platform*>(executorch::runtime::get_pal_impl())) {
    if (platform_ == nullptr) return;
    saved_ = platform_->emit_log_message;
    platform_->emit_log_message = [](auto...) {};
  }
  ~Silence() {
    if (platform_ != nullptr) platform_->emit_log_message = saved_;
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  Platform* platform_;
  decltype(Platform::emit_log_message) saved_ = nullptr;
};

using Quiet = Silence<executorch::runtime::PalImpl>;

}  // namespace graphcheck::kernels
