// Arguments that come in pairs: height and width.
#pragma once

#include "mutants.h"

namespace mutants {

struct Pair {
  int64_t y, x;
};

inline Pair pair_of(const Call& call, size_t index, Pair missing = {1, 1}) {
  const auto list = call.arguments.integers(index);
  if (list.empty()) return missing;
  return {list[0], list[list.size() - 1]};
}

}  // namespace mutants
