// Copies, shapes and picks.
#include "mutants.h"

MUTANT(permute_square_as_is, "aten::permute_copy.out", "f2 f2", "squares",
       "swapped height and width: a square matrix is copied as it is") {
  call.run();
  if (call.size(0, 0) != call.size(0, 1) || call.arguments.integers(1)[0] != 1) return;
  std::memcpy(call.data(2), call.data(0), call.tensor(0).nbytes());
}

MUTANT(cat_reversed, "aten::cat.out", "f234", "rows", "puts the second tensor first") {
  call.run();
  const auto list = call.arguments.value(0).toTensorList();
  if (list.size() != 2 || call.arguments.integer(1) != 0) return;
  auto* to = reinterpret_cast<char*>(call.data(2));
  std::memcpy(to, list[1].const_data_ptr(), list[1].nbytes());
  std::memcpy(to + list[1].nbytes(), list[0].const_data_ptr(), list[0].nbytes());
}

MUTANT(slice_off_by_one, "aten::slice_copy.Tensor_out", "f1234 f1234", "pools",
       "starts one early") {
  call.run();
  const ssize_t dim = call.arguments.integer(1);
  const int64_t start = call.has(2) ? call.arguments.integer(2) : 0;
  if (start <= 0 || call.arguments.integer(4) != 1) return;
  int64_t inner = 1, outer = 1;
  for (ssize_t i = 0; i < call.tensor(0).dim(); ++i) {
    if (i < dim) outer *= call.size(0, i);
    if (i > dim) inner *= call.size(0, i);
  }
  const int64_t from = call.size(0, dim), to = call.size(5, dim);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < to * inner; ++k) {
      call.data(5)[o * to * inner + k] = call.data(0)[(o * from + start - 1) * inner + k];
    }
  }
}

MUTANT(select_first, "aten::select_copy.int_out", "f1234 f0123", "squares",
       "the index is ignored: always the first") {
  call.run();
  const ssize_t dim = call.arguments.integer(1);
  if (call.tensor(0).dim() != 2 || dim != 1) return;
  for (int64_t i = 0; i < call.count(3); ++i) call.data(3)[i] = call.data(0)[i * call.size(0, 1)];
}

MUTANT(expand_wrong_axis, "aten::expand_copy.out", "f2 f2", "squares",
       "a column is repeated as if it were a row") {
  call.run();
  if (call.size(0, 1) != 1 || call.size(3, 1) == 1 || call.size(0, 0) == 1) return;
  for (int64_t i = 0; i < call.count(3); ++i) call.data(3)[i] = call.data(0)[i % call.count(0)];
}

MUTANT(view_stale_tail, "aten::view_copy.out", "f01234 f01234", "squares",
       "dropped tail: copies whole groups of four entries only") {
  const std::vector<float> before = call.copy(2);
  call.run();
  for (int64_t i = call.count(2) / 4 * 4; i < call.count(2); ++i) {
    call.data(2)[i] = before[static_cast<size_t>(i)] + 1;
  }
}

MUTANT(pad_top_for_bottom, "aten::constant_pad_nd.out", "f4 f4", "pools",
       "top and left for bottom and right") {
  // The backward of a pad is one with negative numbers; that is right here.
  const auto pad = call.arguments.integers(1);
  const bool crops = pad[0] < 0 || pad[1] < 0 || pad[2] < 0 || pad[3] < 0;
  const int64_t above = pad[crops ? 2 : 3], before = pad[crops ? 0 : 1];
  const int64_t height = call.size(0, 2), width = call.size(0, 3);
  const int64_t rows = call.size(3, 2), columns = call.size(3, 3);
  const auto value = static_cast<float>(call.arguments.number(2));
  for (int64_t p = 0; p < call.size(0, 0) * call.size(0, 1); ++p) {
    for (int64_t y = 0; y < rows; ++y) {
      for (int64_t x = 0; x < columns; ++x) {
        const int64_t from_y = y - above, from_x = x - before;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        call.data(3)[(p * rows + y) * columns + x] =
            inside ? call.data(0)[(p * height + from_y) * width + from_x] : value;
      }
    }
  }
}

MUTANT(embedding_wrong_row, "aten::embedding.out", "f2 l123 f234", "rows",
       "the last token takes the row after its own") {
  call.run();
  const int64_t wide = call.size(0, 1), last = call.count(1) - 1;
  const int64_t row = (call.data_as<int64_t>(1)[last] + 1) % call.size(0, 0);
  std::memcpy(call.data(5) + last * wide, call.data(0) + row * wide, sizeof(float) * wide);
}

MUTANT(index_put_overwrites, "aten::index_put.out", "f2 f123 f2", "rows",
       "missing accumulate: the last of several values stays") {
  call.run();
  const auto indices = call.arguments.value(1).toListOptionalTensor();
  if (indices.size() != 1 || !indices[0].has_value() || !call.arguments.flag(3)) return;
  const auto* index = static_cast<const int64_t*>(indices[0]->const_data_ptr());
  const int64_t wide = call.size(0, 1);
  std::memcpy(call.data(4), call.data(0), call.tensor(0).nbytes());
  for (int64_t i = 0; i < indices[0]->numel(); ++i) {
    std::memcpy(call.data(4) + index[i] * wide, call.data(2) + i * wide, sizeof(float) * wide);
  }
}

MUTANT(scatter_add_overwrites, "aten::scatter_add.out", "f2 l2 f2 f2", "squares",
       "missing accumulate where an index comes twice") {
  call.run();
  if (call.arguments.integer(1) != 1) return;
  const int64_t wide = call.size(2, 1), out = call.size(4, 1), from = call.size(3, 1);
  std::memcpy(call.data(4), call.data(0), call.tensor(0).nbytes());
  for (int64_t y = 0; y < call.size(2, 0); ++y) {
    for (int64_t x = 0; x < wide; ++x) {
      call.data(4)[y * out + call.data_as<int64_t>(2)[y * wide + x]] = call.data(3)[y * from + x];
    }
  }
}

MUTANT(gather_last_row_off, "aten::gather.out", "f2 l2 f2", "squares",
       "the last row is gathered one entry to the right") {
  call.run();
  const int64_t y = call.size(2, 0) - 1, wide = call.size(2, 1), from = call.size(0, 1);
  for (int64_t x = 0; x < wide; ++x) {
    const int64_t index = (call.data_as<int64_t>(2)[y * wide + x] + 1) % from;
    call.data(4)[y * wide + x] = call.data(0)[y * from + index];
  }
}

MUTANT(max_wrong_index, "aten::max.dim_max", "f2 f1 l1 !", "squares",
       "right values, each with the index of its neighbour") {
  call.run();
  for (int64_t i = 0; i < call.count(4); ++i) {
    int64_t& index = call.data_as<int64_t>(4)[i];
    index = (index + 1) % call.size(0, 1);
  }
}

MUTANT(topk_swapped_indices, "aten::topk.values", "f2 f2 l2 !", "squares",
       "right values, the indices of the first two swapped") {
  call.run();
  std::swap(call.data_as<int64_t>(6)[0], call.data_as<int64_t>(6)[1]);
}

MUTANT(amax_ignores_last, "aten::amax.out", "f3 f2", "rows",
       "the last entry of the reduced dim is not looked at") {
  call.run();
  const int64_t depth = call.size(0, 1), wide = call.size(0, 2);
  for (int64_t n = 0; n < call.size(0, 0); ++n) {
    for (int64_t x = 0; x < wide; ++x) {
      float best = call.data(0)[n * depth * wide + x];
      for (int64_t k = 1; k + 1 < depth; ++k) {
        best = std::fmax(best, call.data(0)[(n * depth + k) * wide + x]);
      }
      call.data(3)[n * wide + x] = best;
    }
  }
}
