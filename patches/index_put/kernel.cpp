// index_put with accumulate on half types, summed in float and rounded once.
#include "../common/install.h"
#include "../common/pack.h"

namespace graphcheck::kernels {
namespace {

// index_put.out(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, *,
//   Tensor(a!) out)
enum : size_t { kSelf, kIndices, kValues, kAccumulate, kOut };

OpFunction stock = nullptr;

using Indices = ArrayRef<std::optional<Tensor>>;

// How places of values map to places of self: the dims of the broadcast indices stand where the
// indexed dims stood if those are neighbours, in front of all others if not.
struct Layout {
  ssize_t rank = 0;        // dims of the values, broadcast
  ssize_t first = 0;       // where the dims of the indices begin
  ssize_t index_rank = 0;  // how many they are
  int64_t size[kMaxDims];  // of every dim of the values
  int64_t step[kMaxDims];  // through self, 0 for the dims of the indices
};

bool lay_out(Context& context, const Tensor& self, Indices indices, const int64_t* strides,
             Layout& layout) {
  int64_t shape[kMaxDims];
  ssize_t last_indexed = -1;
  bool neighbours = true;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].has_value()) continue;
    const Tensor& index = *indices[i];
    GRAPHCHECK_REQUIRE(
        context, index.scalar_type() == ScalarType::Long || index.scalar_type() == ScalarType::Int,
        "indices are int64 or int32");
    if (last_indexed < 0) layout.first = static_cast<ssize_t>(i);
    neighbours = neighbours && (last_indexed < 0 || last_indexed + 1 == static_cast<ssize_t>(i));
    last_indexed = static_cast<ssize_t>(i);
    if (index.dim() > layout.index_rank) layout.index_rank = index.dim();
  }
  for (ssize_t k = 0; k < layout.index_rank; ++k) {
    shape[k] = 1;
    for (const auto& index : indices) {
      if (!index.has_value() || k < layout.index_rank - index->dim()) continue;
      const int64_t size = index->size(k - (layout.index_rank - index->dim()));
      GRAPHCHECK_REQUIRE(context, size == 1 || shape[k] == 1 || size == shape[k],
                         "the indices can be broadcast");
      if (size != 1) shape[k] = size;
    }
  }
  if (!neighbours) layout.first = 0;
  const auto put_indices = [&] {
    for (ssize_t k = 0; k < layout.index_rank; ++k) {
      layout.size[layout.rank] = shape[k];
      layout.step[layout.rank++] = 0;
    }
  };
  bool placed = !neighbours;
  if (placed) put_indices();
  for (ssize_t i = 0; i < self.dim(); ++i) {
    const bool indexed =
        i < static_cast<ssize_t>(indices.size()) && indices[static_cast<size_t>(i)].has_value();
    if (indexed) {
      if (!placed) put_indices();
      placed = true;
      continue;
    }
    layout.size[layout.rank] = self.size(i);
    layout.step[layout.rank++] = strides[i];
  }
  return true;
}

template <typename T>
bool run(Context& context, const Arguments& arguments, Indices indices, const Layout& layout,
         const int64_t* strides, Tensor& out) {
  using Sum = Wide<T>;
  const Tensor& self = arguments.tensor(kSelf);
  const Tensor& values = arguments.tensor(kValues);
  const Sum* given = packed<T>(context, self);
  Result<T> result(context, out);
  if (given == nullptr || result.data == nullptr) return true;
  std::memcpy(result.data, given, static_cast<size_t>(self.numel()) * sizeof(Sum));
  const T* from = data_of<T>(values);
  int64_t total = 1;
  for (ssize_t i = 0; i < layout.rank; ++i) total *= layout.size[i];
  int64_t at[kMaxDims] = {};
  const ssize_t missing = layout.rank - values.dim();
  for (int64_t n = 0; n < total; ++n) {
    int64_t source = 0, target = 0;
    for (ssize_t i = 0; i < layout.rank; ++i) {
      target += at[i] * layout.step[i];
      if (i >= missing && values.size(i - missing) != 1) {
        source += at[i] * values.strides()[i - missing];
      }
    }
    for (size_t k = 0; k < indices.size(); ++k) {
      if (!indices[k].has_value()) continue;
      const Tensor& index = *indices[k];
      int64_t place = 0;
      for (ssize_t i = 0; i < index.dim(); ++i) {
        const int64_t step = index.size(i) == 1 ? 0 : index.strides()[i];
        place += at[layout.first + layout.index_rank - index.dim() + i] * step;
      }
      int64_t to = index.scalar_type() == ScalarType::Long ? data_of<int64_t>(index)[place]
                                                           : data_of<int32_t>(index)[place];
      const int64_t size = self.size(static_cast<ssize_t>(k));
      if (to < -size || to >= size) return false;
      if (to < 0) to += size;
      target += to * strides[k];
    }
    result.data[target] += static_cast<Sum>(from[source]);
    for (ssize_t i = layout.rank - 1; i >= 0; --i) {
      if (++at[i] < layout.size[i]) break;
      at[i] = 0;
    }
  }
  result.finish();
  return true;
}

void kernel(Context& context, Stack stack) {
  const Arguments arguments(stack);
  const Tensor& self = arguments.tensor(kSelf);
  const Tensor& values = arguments.tensor(kValues);
  const Indices indices = arguments.value(kIndices).toListOptionalTensor();
  Tensor& out = arguments.out(kOut);
  bool masks = false;
  for (const auto& index : indices) {
    masks = masks || (index.has_value() && (index->scalar_type() == ScalarType::Bool ||
                                            index->scalar_type() == ScalarType::Byte));
  }
  // Only sums are rounded away; a mask adds to a place once.
  if (stock != nullptr && (masks || !arguments.flag(kAccumulate))) return stock(context, stack);
  GRAPHCHECK_CHECK(context, static_cast<ssize_t>(indices.size()) <= self.dim(),
                   "there are no more indices than dims");
  GRAPHCHECK_CHECK(context,
                   values.scalar_type() == self.scalar_type() &&
                       out.scalar_type() == self.scalar_type() && is_floating(self.scalar_type()),
                   "self, values and out share a floating-point dtype");
  int64_t strides[kMaxDims];
  int64_t stride = 1;
  for (ssize_t i = self.dim() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= self.size(i);
  }
  Layout layout;
  if (!lay_out(context, self, indices, strides, layout)) return;
  GRAPHCHECK_CHECK(context, values.dim() <= layout.rank, "values fit what is indexed");
  for (ssize_t i = 0; i < values.dim(); ++i) {
    const int64_t size = values.size(i);
    GRAPHCHECK_CHECK(context, size == 1 || size == layout.size[layout.rank - values.dim() + i],
                     "values can be broadcast to what is indexed");
  }
  if (!resize_as(context, out, self)) return;
  bool inside = true;
  with_floating(self.scalar_type(), [&](auto zero) {
    inside = run<decltype(zero)>(context, arguments, indices, layout, strides, out);
  });
  GRAPHCHECK_CHECK(context, inside, "every index is inside of its dim");
}

void keys(Keys& keys) {
  for (const ScalarType type : kHalfTypes) {
    for (size_t rank = 1; rank <= 4; ++rank) {
      for (size_t values = 0; values <= 5; ++values) {
        keys.add({plain(type, rank), plain(type, values), plain(type, rank)});
      }
    }
  }
}

void probe(Probe& probe) {
  probe.tensor(ScalarType::BFloat16, {2}, {0});
  probe.list_of(ScalarType::Long, {600}, {1});
  probe.tensor(ScalarType::BFloat16, {600}, {1});
  probe.flag(true);
  probe.output(ScalarType::BFloat16, {2});
  probe.run(1e-2);
}

const bool installed = install({"aten::index_put.out", kernel, keys, probe, &stock});

}  // namespace
}  // namespace graphcheck::kernels
