// Ranges of memory, what two of them share, and a hash of their content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace graphcheck {

struct Range {
  uint8_t* begin;
  uint8_t* end;
};

// What of `ranges` lies outside of `hole`.
inline std::vector<Range> without(const std::vector<Range>& ranges, Range hole) {
  std::vector<Range> rest;
  for (const auto& range : ranges) {
    if (hole.end <= range.begin || range.end <= hole.begin) {
      rest.push_back(range);
      continue;
    }
    if (range.begin < hole.begin) rest.push_back({range.begin, hole.begin});
    if (hole.end < range.end) rest.push_back({hole.end, range.end});
  }
  return rest;
}

inline uint64_t hash_bytes(const uint8_t* data, size_t size) {
  uint64_t hash = 0x9e3779b97f4a7c15U ^ size;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
  };
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    uint64_t word;
    std::memcpy(&word, data + at, 8);
    mix(word);
  }
  uint64_t tail = 0;
  if (at < size) std::memcpy(&tail, data + at, size - at);
  mix(tail);
  return hash;
}

}  // namespace graphcheck
