// What graphcheck asks of the runner and how the runner answers.
// `graphcheck/runtime/wire.py` is the other side; both are little-endian and change together.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace graphcheck {

constexpr char kRequestMagic[] = "GCREQ002";
constexpr char kTraceMagic[] = "GCTRC002";

// Where a run is; recorded with a failure, and by the signal handler with a crash.
enum class Stage : uint8_t {
  kStart = 0,
  kLibrary = 1,
  kProgram = 2,
  kMethod = 3,
  kMetadata = 4,
  kInputs = 5,
  kExecute = 6,
  kUpdate = 7,
  kInspect = 8,
  kDump = 9,
  kEvaluate = 10,
};

enum class Fill : uint8_t { kZero = 0, kNan = 1, kJunk = 2 };
enum class Optimizer : uint8_t { kNone = 0, kSgd = 1, kAdam = 2, kAdamW = 3 };
enum class Kind : uint8_t { kKernel = 0, kDelegate = 1, kMove = 2, kJumpFalse = 3, kFree = 4 };

struct Instruction {
  Kind kind;
  std::string op;
  int32_t target;
  std::vector<int32_t> args;
  std::vector<int32_t> reads;
  std::vector<int32_t> writes;
};

struct Value {
  uint64_t capacity;           // bytes the memory plan keeps for a tensor
  std::vector<int32_t> items;  // members of a tensor list, -1 for a hole
};

struct Array {
  int8_t dtype;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> dim_order;
  std::vector<int32_t> strides;
  std::vector<uint8_t> data;
};

// A value of `dump_step`: dump them all.
constexpr int32_t kEveryStep = -2;

struct Request {
  std::string program;
  std::string method;
  std::vector<std::string> libraries;
  uint32_t steps;
  double learning_rate;
  double momentum;
  double weight_decay;
  double beta1;
  double beta2;
  double eps;
  Optimizer optimizer;
  Fill fill;
  bool detect_stale;
  bool record;
  int32_t dump_step;
  std::vector<int32_t> dump_only;
  std::vector<int32_t> dump_steps;  // steps that are dumped beside `dump_step`
  double timeout;
  std::string weights;                 // a file of weights beside the program, "" without one
  std::vector<int32_t> input_indices;  // which inputs of the method the arrays of a batch are
  std::vector<std::vector<Array>> batches;
  std::string evaluation;                // a method that shares the weights, "" for none
  std::vector<uint32_t> evaluate_after;  // after how many steps it is run
  std::vector<int32_t> evaluation_indices;
  std::vector<std::vector<Array>> evaluation_batches;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
};

class RequestReader {
 public:
  explicit RequestReader(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw std::runtime_error("the request cannot be read");
    bytes_.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }

  Request read() {
    if (std::memcmp(take(8), kRequestMagic, 8) != 0) {
      throw std::runtime_error("the request is of another version");
    }
    Request request;
    request.program = text();
    request.method = text();
    request.libraries.resize(get<uint32_t>());
    for (auto& library : request.libraries) library = text();
    request.steps = get<uint32_t>();
    request.learning_rate = get<double>();
    request.momentum = get<double>();
    request.weight_decay = get<double>();
    request.beta1 = get<double>();
    request.beta2 = get<double>();
    request.eps = get<double>();
    request.optimizer = static_cast<Optimizer>(get<uint8_t>());
    request.fill = static_cast<Fill>(get<uint8_t>());
    request.detect_stale = get<uint8_t>() != 0;
    request.record = get<uint8_t>() != 0;
    request.dump_step = get<int32_t>();
    request.dump_only = list<int32_t>();
    request.dump_steps = list<int32_t>();
    request.timeout = get<double>();
    request.weights = text();
    request.input_indices = list<int32_t>();
    request.batches = this->batches();
    request.evaluation = text();
    request.evaluate_after = list<uint32_t>();
    request.evaluation_indices = list<int32_t>();
    request.evaluation_batches = this->batches();
    request.values.resize(get<uint32_t>());
    for (auto& value : request.values) {
      value.capacity = get<uint64_t>();
      value.items = list<int32_t>();
    }
    request.instructions.resize(get<uint32_t>());
    for (auto& instruction : request.instructions) {
      instruction.kind = static_cast<Kind>(get<uint8_t>());
      instruction.op = text();
      instruction.target = get<int32_t>();
      instruction.args = list<int32_t>();
      instruction.reads = list<int32_t>();
      instruction.writes = list<int32_t>();
    }
    return request;
  }

 private:
  const char* take(size_t size) {
    if (size > bytes_.size() - at_) throw std::runtime_error("the request is cut short");
    const char* from = bytes_.data() + at_;
    at_ += size;
    return from;
  }

  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  std::string text() {
    const auto size = get<uint32_t>();
    return {take(size), size};
  }

  template <typename T>
  std::vector<T> list() {
    const auto size = get<uint32_t>();
    const char* from = take(size * sizeof(T));
    std::vector<T> result(size);
    if (size > 0) std::memcpy(result.data(), from, size * sizeof(T));
    return result;
  }

  std::vector<std::vector<Array>> batches() {
    std::vector<std::vector<Array>> result(get<uint32_t>());
    for (auto& batch : result) {
      batch.resize(get<uint32_t>());
      for (auto& array : batch) array = this->array();
    }
    return result;
  }

  Array array() {
    Array result;
    result.dtype = get<int8_t>();
    result.sizes = list<int32_t>();
    result.dim_order = list<uint8_t>();
    result.strides = list<int32_t>();
    const auto size = get<uint64_t>();
    const char* from = take(size);
    result.data.assign(from, from + size);
    return result;
  }

  std::vector<char> bytes_;
  size_t at_ = 0;
};

// One record of the trace: a tag, a length, and the payload.
class Record {
 public:
  explicit Record(char tag) : tag_(tag) {}

  template <typename T>
  Record& put(T value) {
    bytes(&value, sizeof(T));
    return *this;
  }

  Record& text(const std::string& value) {
    put(static_cast<uint32_t>(value.size()));
    bytes(value.data(), value.size());
    return *this;
  }

  Record& bytes(const void* data, size_t size) {
    const auto* from = static_cast<const char*>(data);
    payload_.insert(payload_.end(), from, from + size);
    return *this;
  }

  // Bytes that stay as they are until the record is written: a record of all weights needs no
  // memory for them.
  Record& borrowed(const void* data, size_t size) {
    pieces_.push_back({payload_.size(), static_cast<const char*>(data), size});
    lent_ += size;
    return *this;
  }

  char tag() const { return tag_; }
  uint64_t size() const { return payload_.size() + lent_; }

  // Calls `write(data, size)` for its bytes in order, until one call gives false.
  template <typename Write>
  bool each(Write&& write) const {
    size_t at = 0;
    for (const auto& piece : pieces_) {
      if (!write(payload_.data() + at, piece.at - at) || !write(piece.data, piece.size)) {
        return false;
      }
      at = piece.at;
    }
    return write(payload_.data() + at, payload_.size() - at);
  }

 private:
  // Borrowed bytes, and how many of the record's own come before them.
  struct Piece {
    size_t at;
    const char* data;
    size_t size;
  };

  char tag_;
  std::vector<char> payload_;
  std::vector<Piece> pieces_;
  uint64_t lent_ = 0;
};

inline bool write_all(int file, const void* data, size_t size) {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::write(file, from, size);
    if (count < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    from += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// The trace cannot be written: a full disk, a limit, a reader that is gone.
struct WriteFailure : std::runtime_error {
  explicit WriteFailure(int number)
      : std::runtime_error(std::string("the trace cannot be written: ") + std::strerror(number)) {}
};

class Trace {
 public:
  explicit Trace(int file) : file_(file) {
    if (!write_all(file_, kTraceMagic, 8)) throw WriteFailure(errno);
  }

  void write(const Record& record) {
    char head[9];
    head[0] = record.tag();
    const uint64_t size = record.size();
    std::memcpy(head + 1, &size, 8);
    // The record of a time-out must not fall into the middle of this one.
    sigset_t alarm, before;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &before);
    const auto put = [this](const char* data, size_t count) {
      return write_all(file_, data, count);
    };
    const bool written = put(head, sizeof(head)) && record.each(put);
    const int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!written) throw WriteFailure(why);
  }

 private:
  int file_;
};

}  // namespace graphcheck
