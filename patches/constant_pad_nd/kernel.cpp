// Padding with a constant, and cropping where a pad is negative, which ExecuTorch's kernel up to
// 1.5.1 refuses; the gradient of every constant pad is such a crop.
#include <algorithm>

#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// constant_pad_nd.out(Tensor self, SymInt[] pad, Scalar value, *, Tensor(a!) out)
enum : size_t { kSelf, kPad, kValue, kOut };

OpFunction stock = nullptr;

template <typename T>
void run(const Tensor& input, const int64_t* before, T value, Tensor& out) {
  const T* from = data_of<T>(input);
  T* to = mutable_data_of<T>(out);
  std::fill(to, to + out.numel(), value);
  const ssize_t rank = input.dim();
  int64_t begin[kMaxDims], end[kMaxDims], index[kMaxDims];
  for (ssize_t i = 0; i < rank; ++i) {
    begin[i] = std::max<int64_t>(0, before[i]);
    end[i] = std::min<int64_t>(out.size(i), before[i] + input.size(i));
    if (begin[i] >= end[i]) return;
    index[i] = begin[i];
  }
  for (;;) {
    int64_t source = 0, target = 0;
    for (ssize_t i = 0; i < rank; ++i) {
      source += (index[i] - before[i]) * input.strides()[i];
      target += index[i] * out.strides()[i];
    }
    const int64_t inner = rank == 0 ? 1 : end[rank - 1] - begin[rank - 1];
    const int64_t step = rank == 0 ? 1 : input.strides()[rank - 1];
    const int64_t stride = rank == 0 ? 1 : out.strides()[rank - 1];
    if (step == 1 && stride == 1) {
      std::copy(from + source, from + source + inner, to + target);
    } else {
      for (int64_t i = 0; i < inner; ++i) to[target + i * stride] = from[source + i * step];
    }
    ssize_t dim = rank - 2;
    for (; dim >= 0; --dim) {
      if (++index[dim] < end[dim]) break;
      index[dim] = begin[dim];
    }
    if (dim < 0) return;
  }
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(kSelf);
  const auto pad = arguments.integers(kPad);
  Tensor& out = arguments.out(kOut);
  const bool crops = std::any_of(pad.begin(), pad.end(), [](int64_t size) { return size < 0; });
  // Row-major padding is right in the runtime, and stays as it is.
  if (!crops && stock != nullptr && is_row_major(input) && is_row_major(out)) {
    return stock(context, stack);
  }
  const ssize_t rank = input.dim();
  const auto padded = static_cast<ssize_t>(pad.size() / 2);
  GRAPHCHECK_CHECK(context, pad.size() % 2 == 0 && padded <= rank,
                   "pad holds two values for each of the last dims");
  GRAPHCHECK_CHECK(context, out.scalar_type() == input.scalar_type(), "self and out share a dtype");
  int64_t before[kMaxDims] = {};
  executorch::aten::SizesType sizes[kMaxDims];
  for (ssize_t i = 0; i < rank; ++i) {
    const ssize_t pair = rank - 1 - i;
    int64_t size = input.size(i);
    if (pair < padded) {
      const int64_t first = pad[static_cast<size_t>(2 * pair)];
      const int64_t last = pad[static_cast<size_t>(2 * pair + 1)];
      GRAPHCHECK_CHECK(context,
                       size + std::min<int64_t>(first, 0) + std::min<int64_t>(last, 0) >= 0,
                       "no more is cropped than there is");
      before[i] = first;
      size += first + last;
    }
    sizes[i] = static_cast<executorch::aten::SizesType>(size);
  }
  if (!resize(context, out, sizes, static_cast<size_t>(rank))) return;
  if (out.numel() == 0) return;
  const double value = arguments.number(kValue);
  bool done = with_floating(input.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    run<T>(input, before, static_cast<T>(static_cast<Wide<T>>(value)), out);
  });
  if (input.scalar_type() == ScalarType::Long) {
    run<int64_t>(input, before, static_cast<int64_t>(value), out);
    done = true;
  }
  GRAPHCHECK_CHECK(context, done, "the dtype is a floating-point one or int64");
}

void keys(Keys& keys) {
  std::vector<ScalarType> types(std::begin(kFloatingTypes), std::end(kFloatingTypes));
  types.push_back(ScalarType::Long);
  for (const ScalarType type : types) {
    for (size_t rank = 1; rank <= 6; ++rank) {
      const Slot tensor = rank == 4 ? either(type, rank) : plain(type, rank);
      keys.add({tensor, tensor});
    }
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::Float, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  probe.integers({-1, -1, 1, 0});
  probe.number(0);
  probe.output(ScalarType::Float, {3, 2});
  probe.run(0);
}

const bool installed = install({"aten::constant_pad_nd.out", kernel, keys, probe, &stock});

}  // namespace
}  // namespace graphcheck::kernels
