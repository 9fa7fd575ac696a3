// Trains a program in the ExecuTorch runtime: `runner REQUEST TRACE` (- for standard output).
// Exit code 0: the trace holds all that was asked. 1: it ends with a failure. 2: wrong request.
// 4: the trace cannot be written. `runner --hello` says what it is.
#include <dlfcn.h>
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/runtime/platform/runtime.h>
#include <fcntl.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "inspect.h"
#include "optimizer.h"
#include "session.h"
#include "training.h"
#include "watch.h"
#include "wire.h"

#ifndef GRAPHCHECK_EXECUTORCH_VERSION
#define GRAPHCHECK_EXECUTORCH_VERSION "unknown"
#endif

namespace graphcheck {
namespace {

constexpr int kWrongRequest = 2;
constexpr int kNotWritten = 4;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The most memory this process ever held, in bytes. What getrusage tells may be of the process
// that started this one.
uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void put_memory(uint64_t at_start, Trace& trace) {
  Record record('M');
  record.put(at_start);
  record.put(peak_memory());
  trace.write(record);
}

void load_libraries(const Request& request) {
  set_stage(Stage::kLibrary);
  for (const auto& library : request.libraries) {
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* why = dlerror();
      throw Failure{Stage::kLibrary, Error::AccessFailed, why == nullptr ? library : why};
    }
  }
}

// The instruction after `index` when there is no jump in between.
int32_t follow(const Request& request, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= request.instructions.size()) return -1;
  return request.instructions[static_cast<size_t>(index)].kind == Kind::kJumpFalse ? -1 : index + 1;
}

bool is_dumped(const Request& request, int32_t step) {
  const auto& steps = request.dump_steps;
  return request.dump_step == kEveryStep || request.dump_step == step ||
         std::find(steps.begin(), steps.end(), step) != steps.end();
}

void put_named(Record& record, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  record.put(static_cast<uint32_t>(tensors.size()));
  for (const auto& [name, tensor] : tensors) {
    record.text(name);
    put_tensor(record, tensor, true);
  }
}

void put_outputs(Record& record, const Method& method, size_t end) {
  std::vector<const Tensor*> outputs;
  for (size_t i = 0; i < end; ++i) {
    if (method.get_output(i).isTensor()) outputs.push_back(&method.get_output(i).toTensor());
  }
  record.put(static_cast<uint32_t>(outputs.size()));
  for (const auto* output : outputs) put_tensor(record, *output, true);
}

// The method that shares the weights, run between training steps; 'P' records.
class Evaluation {
 public:
  Evaluation(Request& request, const Package& package, const Session& training, Trace& trace)
      : request_(request), package_(package), training_(training), trace_(trace) {}

  void after(uint32_t steps) {
    const auto& wanted = request_.evaluate_after;
    if (std::find(wanted.begin(), wanted.end(), steps) == wanted.end()) return;
    set_stage(Stage::kEvaluate);
    // Loaded when it is first needed, as an app does: this must not touch the trained weights.
    if (!session_) {
      session_.emplace(package_, request_.evaluation, request_.fill, no_kernels_, &training_);
    }
    uint32_t number = 0;
    for (auto& batch : request_.evaluation_batches) {
      session_->set_inputs(request_.evaluation_indices, batch);
      session_->run(Stage::kEvaluate, [](int32_t) { return -1; });
      Record record('P');
      record.put(steps);
      record.put(number++);
      put_outputs(record, session_->method(), session_->method().outputs_size());
      trace_.write(record);
    }
  }

 private:
  const std::vector<Kernel> no_kernels_;
  Request& request_;
  const Package& package_;
  const Session& training_;
  Trace& trace_;
  std::optional<Session> session_;
};

void train(Request& request, const Package& package, Session& session, Trace& trace) {
  Method& method = session.method();
  Training training;
  Updater updater(request);
  const bool learns = request.optimizer != Optimizer::kNone;
  if (learns) training = read_training(package, method, request.method);
  const size_t outputs = learns ? training.gradients_index : method.outputs_size();
  Evaluation evaluation(request, package, session, trace);
  evaluation.after(0);
  for (uint32_t step = 0; step < request.steps; ++step) {
    position.step = static_cast<sig_atomic_t>(step);
    const auto start = Clock::now();
    auto& batch = request.batches[step % request.batches.size()];
    if (is_dumped(request, static_cast<int32_t>(step))) {
      dump_step(request, package, session, batch, trace);
    }
    session.set_inputs(request.input_indices, batch);
    const auto execution = Clock::now();
    session.run(Stage::kExecute, [&](int32_t index) { return follow(request, index); });
    const double executed = seconds_since(execution);
    Record record('S');
    record.put(step);
    record.put(method.outputs_size() > 0 ? first_number(method.get_output(0)) : std::nan(""));
    record.put(executed);
    put_named(record, request.record ? training.gradients : decltype(training.gradients){});
    put_named(record, request.record ? training.parameters : decltype(training.parameters){});
    put_outputs(record, method, request.record ? outputs : 0);
    trace.write(record);
    if (learns) updater.update(training);
    Record rest('O');
    rest.put(seconds_since(start) - executed);
    trace.write(rest);
    evaluation.after(step + 1);
  }
}

void run(Request& request, Trace& trace) {
  executorch::runtime::runtime_init();
  load_libraries(request);
  set_stage(Stage::kProgram);
  auto loader = executorch::extension::FileDataLoader::from(request.program.c_str());
  require(loader.error(), Stage::kProgram);
  const auto program = Program::load(&*loader, Program::Verification::InternalConsistency);
  require(program.error(), Stage::kProgram);
  std::optional<executorch::extension::FileDataLoader> weights_loader;
  std::optional<executorch::extension::FlatTensorDataMap> weights;
  if (!request.weights.empty()) {
    auto file = executorch::extension::FileDataLoader::from(request.weights.c_str());
    require(file.error(), Stage::kProgram, "weights");
    weights_loader.emplace(std::move(*file));
    auto map = executorch::extension::FlatTensorDataMap::load(&*weights_loader);
    require(map.error(), Stage::kProgram, "weights");
    weights.emplace(std::move(*map));
  }
  const Package package{*program, weights ? &*weights : nullptr};
  set_stage(Stage::kMethod);
  Session session(package, request.method, request.fill);
  uint64_t arena = 0;
  for (const auto& memory : session.memory()) arena += memory.size();
  Record loaded('L');
  loaded.put(arena);
  loaded.put(static_cast<uint32_t>(session.method().outputs_size()));
  trace.write(loaded);
  if (request.detect_stale) {
    detect_stale(request, package, session, request.batches[0], trace);
  }
  train(request, package, session, trace);
}

// Standard output is kept for the trace alone: what kernels print goes to standard error.
int open_trace(const std::string& path) {
  int file = -1;
  if (path == "-") {
    file = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (file >= 0) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  } else {
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
  if (file < 0) throw WriteFailure(errno);
  return file;
}

// One line of JSON that a device is known by.
int hello() {
  const uint16_t one = 1;
  uint8_t first = 0;
  std::memcpy(&first, &one, 1);
  std::printf("{\"runner\": \"%s\", \"executorch\": \"%s\", \"endian\": \"%s\", \"bits\": %zu}\n",
              kRequestMagic, GRAPHCHECK_EXECUTORCH_VERSION, first == 1 ? "little" : "big",
              sizeof(void*) * 8);
  return 0;
}

int serve(const std::string& request_path, const std::string& trace_path) {
  // A file that grows too large is to be an error of `write`, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  const int file = open_trace(trace_path);
  Trace trace(file);
  const uint64_t at_start = peak_memory();
  Request request = RequestReader(request_path).read();
  if (request.batches.empty() && (request.steps > 0 || request.detect_stale)) {
    throw std::runtime_error("there is no batch to train on");
  }
  watch(file, request.timeout);
  try {
    run(request, trace);
  } catch (const Failure& failure) {
    put_memory(at_start, trace);
    Record record('F');
    record.put(failure.stage);
    record.put(static_cast<int32_t>(position.step));
    record.put(static_cast<int32_t>(position.instruction));
    record.put(static_cast<uint32_t>(failure.error));
    record.text(failure.detail);
    trace.write(record);
    return 1;
  }
  put_memory(at_start, trace);
  trace.write(Record('E'));
  return 0;
}

}  // namespace
}  // namespace graphcheck

int main(int count, char** arguments) {
#ifdef __linux__
  // Whoever reads the trace may be killed; nothing may train on without him.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (count == 2 && std::strcmp(arguments[1], "--hello") == 0) return graphcheck::hello();
  if (count != 3) {
    std::fprintf(stderr, "usage: runner REQUEST TRACE\n");
    return graphcheck::kWrongRequest;
  }
  try {
    return graphcheck::serve(arguments[1], arguments[2]);
  } catch (const graphcheck::WriteFailure& error) {
    std::fprintf(stderr, "runner: %s\n", error.what());
    return graphcheck::kNotWritten;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "runner: %s\n", error.what());
    return graphcheck::kWrongRequest;
  }
}
