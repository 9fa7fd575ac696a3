// Keeps the runtime's log still while a kernel is tried that may refuse.
#pragma once

#include <executorch/runtime/platform/platform.h>

namespace graphcheck::kernels {

class Quiet {
 public:
  Quiet() : saved_(*executorch::runtime::get_pal_impl()) {
    executorch::runtime::PalImpl silent = saved_;
    silent.emit_log_message = [](et_timestamp_t, et_pal_log_level_t, const char*, const char*,
                                 size_t, const char*, size_t) {};
    executorch::runtime::register_pal(silent);
  }
  ~Quiet() { executorch::runtime::register_pal(saved_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  executorch::runtime::PalImpl saved_;
};

}  // namespace graphcheck::kernels
