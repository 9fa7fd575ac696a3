// A thread pool of five, in place of the runtime's: one thread for each index, whatever the
// machine.
#include <executorch/runtime/core/function_ref.h>

#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace executorch::extension {

__attribute__((visibility("default"))) bool parallel_for(
    const int64_t begin, const int64_t end, const int64_t,
    runtime::FunctionRef<void(int64_t, int64_t)> body) {
  std::fprintf(stderr, "threads: %d\n", static_cast<int>(end - begin));
  std::vector<std::thread> threads;
  // The last first: an order that results must not depend on.
  for (int64_t i = end; i-- > begin;) threads.emplace_back([=] { body(i, i + 1); });
  for (auto& thread : threads) thread.join();
  return true;
}

__attribute__((visibility("default"))) int64_t get_thread_count() { return 5; }

}  // namespace executorch::extension
