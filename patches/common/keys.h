// Keys of specialised kernels: which dtypes and dim orders of a call's tensors a kernel is for.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "kernel.h"

namespace graphcheck::kernels {

// One tensor of a call: its dtype, and the dim orders it may come in.
struct Slot {
  ScalarType type;
  std::vector<std::string> orders;
};

// Dim order of a row-major tensor: `0,1,2,3`; of a tensor without dims: nothing.
std::string row_major(size_t rank);
// Batch first, then the spatial dims, channels last: `0,2,3,1`.
std::string channels_last(size_t rank);

// A tensor in row-major order.
Slot plain(ScalarType type, size_t rank);
// A tensor in row-major or channels-last order.
Slot either(ScalarType type, size_t rank);

class Keys {
 public:
  // All combinations of the slots' dim orders. Slots are in the order of the tensors of a call; the
  // last `outs` of them are outputs. A single output comes twice: as argument and as result.
  void add(const std::vector<Slot>& slots, size_t outs = 1);
  const std::vector<std::string>& list() const { return keys_; }

 private:
  std::vector<std::string> keys_;
};

inline constexpr ScalarType kFloatingTypes[] = {ScalarType::Float, ScalarType::Double,
                                                ScalarType::Half, ScalarType::BFloat16};
inline constexpr ScalarType kHalfTypes[] = {ScalarType::Half, ScalarType::BFloat16};

}  // namespace graphcheck::kernels
