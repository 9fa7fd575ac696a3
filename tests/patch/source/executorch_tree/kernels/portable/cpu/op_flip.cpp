#include "mini.h"

namespace torch::executor {

inline void indexToCoordinate(const Tensor& in, size_t index, size_t* coordinates) {
  for (int64_t d = in.dim(); d-- > 0;) {
    coordinates[d] = index % in.size(d);
    index /= in.size(d);
  }
}

inline size_t coordinateToIndex(const Tensor& in, const size_t* coordinates) {
  size_t index = 0;
  for (int64_t d = 0; d < in.dim(); ++d) index = index * in.size(d) + coordinates[d];
  return index;
}

size_t unflip_flat_ix(size_t ix, const Tensor& in, const std::vector<bool>& flip_dim) {
  size_t there[8];
  indexToCoordinate(in, ix, there);
  size_t back[8];
  for (const auto d : c10::irange(in.dim())) {
    back[d] = flip_dim[d] ? in.size(d) - there[d] - 1 : there[d];
  }
  return coordinateToIndex(in, back);
}

void flip(const Tensor& in, const std::vector<bool>& dims, Tensor& out) {
  for (int64_t at = 0; at < in.numel(); ++at) {
    out.mutable_data_ptr<float>()[at] = in.const_data_ptr<float>()[unflip_flat_ix(at, in, dims)];
  }
}

}  // namespace torch::executor
