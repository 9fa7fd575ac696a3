#include "keys.h"

#include <algorithm>

namespace graphcheck::kernels {

std::string row_major(size_t rank) {
  std::string order;
  for (size_t i = 0; i < rank; ++i) order += (i ? "," : "") + std::to_string(i);
  return order;
}

std::string channels_last(size_t rank) {
  std::string order = "0";
  for (size_t i = 2; i < rank; ++i) order += "," + std::to_string(i);
  return order + ",1";
}

Slot plain(ScalarType type, size_t rank) { return {type, {row_major(rank)}}; }

Slot either(ScalarType type, size_t rank) {
  if (rank < 3) return plain(type, rank);
  return {type, {row_major(rank), channels_last(rank)}};
}

void Keys::add(const std::vector<Slot>& slots, size_t outs) {
  std::vector<size_t> choice(slots.size(), 0);
  for (;;) {
    std::string key = "v1/";
    const auto append = [&](size_t i) {
      if (key.size() > 3) key += "|";
      key += std::to_string(static_cast<int>(slots[i].type)) + ";" + slots[i].orders[choice[i]];
    };
    for (size_t i = 0; i < slots.size(); ++i) append(i);
    // Several results come as one list, which has no part in a key.
    if (outs == 1) append(slots.size() - 1);
    if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) keys_.push_back(key);
    size_t i = 0;
    while (i < slots.size() && ++choice[i] == slots[i].orders.size()) choice[i++] = 0;
    if (i == slots.size()) return;
  }
}

}  // namespace graphcheck::kernels
