// Work on the runtime's thread pool, where the process has one.
#pragma once

#include <cstdint>

// ExecuTorch 0.6 has no such thread pool, and no such header.
#if __has_include(<executorch/runtime/core/function_ref.h>)
#include <executorch/runtime/core/function_ref.h>
#define GRAPHCHECK_THREADS 1
#endif

#ifdef GRAPHCHECK_THREADS
namespace executorch::extension {
// Of the runtime's thread pool library; null where it is not loaded.
__attribute__((weak)) bool parallel_for(const int64_t begin, const int64_t end,
                                        const int64_t grain_size,
                                        runtime::FunctionRef<void(int64_t, int64_t)> f);
__attribute__((weak)) int64_t get_thread_count();
}  // namespace executorch::extension
#endif

namespace graphcheck::kernels {

// How many workers `in_parallel` has for that many tasks.
inline int64_t workers_for([[maybe_unused]] int64_t tasks) {
#ifndef GRAPHCHECK_THREADS
  return 1;
#else
  if (executorch::extension::parallel_for == nullptr ||
      executorch::extension::get_thread_count == nullptr) {
    return 1;
  }
  const int64_t threads = executorch::extension::get_thread_count();
  const int64_t workers = threads < tasks ? threads : tasks;
  return workers < 1 ? 1 : workers;
#endif
}

// Gives each of `workers` workers its share of the tasks: `body(worker, first, end)`.
template <typename Body>
void in_parallel(int64_t tasks, int64_t workers, Body&& body) {
  const auto share = [&](int64_t worker) {
    body(worker, tasks * worker / workers, tasks * (worker + 1) / workers);
  };
  if (workers <= 1) return share(0);
#ifdef GRAPHCHECK_THREADS
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) share(worker);
  };
  executorch::extension::parallel_for(0, workers, 1, range);
#endif
}

}  // namespace graphcheck::kernels
