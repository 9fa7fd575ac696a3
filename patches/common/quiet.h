// Keeps the runtime's log still while a kernel is tried that may refuse.
#pragma once

#include <executorch/runtime/platform/platform.h>

namespace graphcheck::kernels {

class Quiet {
 public:
  // Registering another platform layer would itself be logged, so its log function is exchanged in
  // place.
  Quiet()
      : platform_(const_cast<executorch::runtime::PalImpl*>(executorch::runtime::get_pal_impl())) {
    if (platform_ == nullptr) return;
    saved_ = platform_->emit_log_message;
    platform_->emit_log_message = [](et_timestamp_t, et_pal_log_level_t, const char*, const char*,
                                     size_t, const char*, size_t) {};
  }
  ~Quiet() {
    if (platform_ != nullptr) platform_->emit_log_message = saved_;
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  executorch::runtime::PalImpl* platform_;
  pal_emit_log_message_method saved_ = nullptr;
};

}  // namespace graphcheck::kernels
