// Dropout: what it keeps is scaled by 1 / (1 - p), so that the mean stays. The kernel of
// ExecuTorch up to 1.5.1 keeps it as it is, and cannot be seeded.
#include <atomic>

#include "../common/install.h"

namespace {

// The state of the generator is this count: number `n` of a seed is a function of both, so that
// draws need no lock and a seed gives the same numbers again.
std::atomic<uint64_t> drawn{0};
std::atomic<uint64_t> seed{0x6772617068636865};

// Mixes all bits of a count into all bits of a number (the finaliser of SplitMix64).
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void graphcheck_kernels_seed(uint64_t value) {
  seed = mix(value);
  drawn = 0;
}

namespace graphcheck::kernels {
namespace {

// native_dropout.out(Tensor input, float p, bool? train, *, Tensor(a!) out0, Tensor(b!) out1)
enum : size_t { kInput, kProbability, kTrain, kOut, kMask };

template <typename T>
void run(const Tensor& input, double p, bool train, Tensor& out, Tensor& mask) {
  const T* from = data_of<T>(input);
  T* to = mutable_data_of<T>(out);
  bool* kept = mutable_data_of<bool>(mask);
  const int64_t count = input.numel();
  if (!train || p == 0) {
    if (count > 0) std::memcpy(to, from, input.nbytes());
    std::memset(kept, 1, static_cast<size_t>(count));
    return;
  }
  const uint64_t own = seed;
  const uint64_t first = drawn.fetch_add(static_cast<uint64_t>(count));
  const auto scale = static_cast<Wide<T>>(p == 1 ? 0 : 1 / (1 - p));
  // Half of the bits are a number in [0, 1): two draws of each.
  const auto limit = static_cast<uint64_t>(p * 4294967296.0);
  for (int64_t i = 0; i < count; i += 2) {
    uint64_t bits = mix(own + (first + static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15);
    for (int64_t k = i; k < count && k < i + 2; ++k) {
      const bool keep = (bits & 0xffffffff) >= limit;
      kept[k] = keep;
      // Without a branch, which no predictor could guess.
      const auto factor = keep ? scale : Wide<T>(0);
      const T scaled = static_cast<T>(static_cast<Wide<T>>(from[k]) * factor);
      to[k] = keep ? scaled : static_cast<T>(0.0f);
      bits >>= 32;
    }
  }
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kInput);
  Tensor& out = arguments.out(kOut);
  Tensor& mask = arguments.out(kMask);
  const double p = arguments.number(kProbability);
  const bool train = !arguments.has(kTrain) || arguments.flag(kTrain);
  GRAPHCHECK_CHECK(context, p >= 0 && p <= 1, "p is between 0 and 1");
  GRAPHCHECK_CHECK(context, mask.scalar_type() == ScalarType::Bool, "the mask is bool");
  GRAPHCHECK_CHECK(context, out.scalar_type() == input.scalar_type(),
                   "input and result share a dtype");
  GRAPHCHECK_CHECK(context, is_floating(input.scalar_type()), "the dtype is a floating-point one");
  if (!resize_as(context, out, input) || !resize_as(context, mask, input)) return;
  // With one order in memory an element has one place in all three.
  for (ssize_t i = 0; i < input.dim(); ++i) {
    GRAPHCHECK_CHECK(
        context, out.strides()[i] == input.strides()[i] && mask.strides()[i] == input.strides()[i],
        "input, result and mask have one dim order");
  }
  with_floating(input.scalar_type(),
                [&](auto zero) { run<decltype(zero)>(input, p, train, out, mask); });
}

void keys(Keys& keys) {
  for (const ScalarType type : kFloatingTypes) {
    for (size_t rank = 1; rank <= 5; ++rank) {
      keys.add({plain(type, rank), plain(type, rank), plain(ScalarType::Bool, rank)}, 2);
    }
    const std::vector<std::string> last = {channels_last(4)};
    keys.add({{type, last}, {type, last}, {ScalarType::Bool, last}}, 2);
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::Float, {64}, {1});
  probe.number(0.5);
  probe.flag(true);
  probe.output(ScalarType::Float, {64});
  probe.output(ScalarType::Bool, {64});
  // Draws differ from kernel to kernel; what is kept must be doubled.
  probe.judge([](const std::vector<std::vector<double>>& results) {
    for (size_t i = 0; i < 64; ++i) {
      if (results[0][i] != (results[1][i] != 0 ? 2 : 0)) return false;
    }
    return true;
  });
}

const bool installed = install({"aten::native_dropout.out", kernel, keys, probe});

}  // namespace
}  // namespace graphcheck::kernels
