// Knows at any time what runs, and writes it to the trace when the process crashes or hangs.
#pragma once

#include <pthread.h>
#include <sys/time.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "wire.h"

namespace graphcheck {

struct Position {
  volatile sig_atomic_t stage = 0;
  volatile sig_atomic_t step = -1;
  volatile sig_atomic_t instruction = -1;
};

inline Position position;
inline int watch_file = -1;
inline pthread_t watch_thread;

inline void set_stage(Stage stage) { position.stage = static_cast<sig_atomic_t>(stage); }

// Async-signal-safe: writes one 'X' record, then dies of the signal (of a time-out: exits).
inline void on_signal(int number) {
  // A time-out may reach a thread of the runtime's pool; the thread that writes records holds it
  // off while it writes one.
  if (number == SIGALRM && !pthread_equal(pthread_self(), watch_thread)) {
    pthread_kill(watch_thread, number);
    return;
  }
  char record[9 + 16];
  record[0] = 'X';
  const uint64_t size = 16;
  const int32_t fields[4] = {number, static_cast<int32_t>(position.stage),
                             static_cast<int32_t>(position.step),
                             static_cast<int32_t>(position.instruction)};
  std::memcpy(record + 1, &size, 8);
  std::memcpy(record + 9, fields, 16);
  write_all(watch_file, record, sizeof(record));
  if (number == SIGALRM) _exit(3);
  std::signal(number, SIG_DFL);
  raise(number);
}

// `timeout` in seconds; 0 for none. To be called by the thread that writes the trace.
inline void watch(int file, double timeout) {
  watch_file = file;
  watch_thread = pthread_self();
  // The stack may be what overflowed.
  static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
    sigaction(number, &action, nullptr);
  }
  if (timeout > 0) {
    itimerval limit = {};
    limit.it_value.tv_sec = static_cast<time_t>(timeout);
    limit.it_value.tv_usec = static_cast<suseconds_t>((timeout - std::floor(timeout)) * 1e6) + 1;
    setitimer(ITIMER_REAL, &limit, nullptr);
  }
}

}  // namespace graphcheck
