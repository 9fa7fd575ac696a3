// The scheme is the usual one: a block of B that stays in the second-level cache and a block of A
// that stays in the first are copied into panels, and a small tile of C is kept in registers while
// it runs down two panels. The tile is written with the compiler's vector types, so one source
// gives code for every instruction set.
#include "gemm.h"

#include <algorithm>

namespace graphcheck::kernels {
namespace {

constexpr int64_t kInnerBlock = 256;
constexpr int64_t kRowBlock = 96;
constexpr int64_t kColumnBlock = 384;

// Tiles of `kRows` rows and `kVectors` vectors of `kBytes` bytes.
template <typename T, int kBytes, int kRows, int kVectors>
struct Tile {
  typedef T Vector __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  static constexpr int64_t kLanes = kBytes / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kHeight = kRows;
  static constexpr int64_t kWidth = kVectors * kLanes;

  // One tile: panels `a` of kHeight and `b` of kWidth values for each step of `inner`.
  static inline __attribute__((always_inline)) void run(int64_t inner, const T* a, const T* b,
                                                        T* out, int64_t stride, bool add) {
    Vector sums[kRows][kVectors] = {};
    for (int64_t k = 0; k < inner; ++k) {
      Vector right[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        right[v] = *reinterpret_cast<const Vector*>(b + v * kLanes);
      }
      for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r] * right[v];
      }
      a += kHeight;
      b += kWidth;
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        auto* to = reinterpret_cast<Vector*>(out + r * stride + v * kLanes);
        *to = add ? *to + sums[r][v] : sums[r][v];
      }
    }
  }
};

// Copies `count` (of `height` x `inner`) into panels of kSize: element k of row r is at
// `k * kSize + r`; rows beyond the end are zero.
template <int64_t kSize, typename T>
inline __attribute__((always_inline)) void pack(const T* from, int64_t step, int64_t inner_step,
                                                int64_t count, int64_t inner, T* to) {
  for (int64_t start = 0; start < count; start += kSize) {
    const int64_t here = std::min(kSize, count - start);
    const T* rows = from + start * step;
    if (here == kSize && step == 1) {
      for (int64_t k = 0; k < inner; ++k) {
        const T* row = rows + k * inner_step;
        for (int64_t r = 0; r < kSize; ++r) to[k * kSize + r] = row[r];
      }
    } else if (here == kSize) {
      for (int64_t r = 0; r < kSize; ++r) {
        for (int64_t k = 0; k < inner; ++k) to[k * kSize + r] = rows[r * step + k * inner_step];
      }
    } else {
      for (int64_t k = 0; k < inner; ++k) {
        for (int64_t r = 0; r < kSize; ++r) {
          to[k * kSize + r] = r < here ? rows[r * step + k * inner_step] : T(0);
        }
      }
    }
    to += kSize * inner;
  }
}

template <typename Tile, typename T>
inline __attribute__((always_inline)) void blocked(int64_t rows, int64_t columns, int64_t inner,
                                                   Matrix<const T> a, Matrix<const T> b,
                                                   Matrix<T> c, bool add, T* memory) {
  constexpr int64_t kHeight = Tile::kHeight, kWidth = Tile::kWidth;
  T* left = memory;
  T* right = memory + kRowBlock * kInnerBlock;
  T edge[kHeight * kWidth];
  for (int64_t k0 = 0; k0 < inner; k0 += kInnerBlock) {
    const int64_t depth = std::min(kInnerBlock, inner - k0);
    const bool more = add || k0 > 0;
    for (int64_t j0 = 0; j0 < columns; j0 += kColumnBlock) {
      const int64_t width = std::min(kColumnBlock, columns - j0);
      pack<kWidth>(b.data + k0 * b.row + j0 * b.column, b.column, b.row, width, depth, right);
      for (int64_t i0 = 0; i0 < rows; i0 += kRowBlock) {
        const int64_t height = std::min(kRowBlock, rows - i0);
        pack<kHeight>(a.data + i0 * a.row + k0 * a.column, a.row, a.column, height, depth, left);
        for (int64_t j = 0; j < width; j += kWidth) {
          for (int64_t i = 0; i < height; i += kHeight) {
            T* out = c.data + (i0 + i) * c.row + j0 + j;
            const T* panel = left + i * depth;
            const T* other = right + j * depth;
            if (i + kHeight <= height && j + kWidth <= width) {
              Tile::run(depth, panel, other, out, c.row, more);
              continue;
            }
            Tile::run(depth, panel, other, edge, kWidth, false);
            const int64_t tall = std::min(kHeight, height - i), wide = std::min(kWidth, width - j);
            for (int64_t r = 0; r < tall; ++r) {
              for (int64_t s = 0; s < wide; ++s) {
                T& cell = out[r * c.row + s];
                cell = more ? cell + edge[r * kWidth + s] : edge[r * kWidth + s];
              }
            }
          }
        }
      }
    }
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
#define GRAPHCHECK_WIDE_VECTORS 1
template <typename T>
__attribute__((target("avx2,fma"))) void gemm_avx2(int64_t rows, int64_t columns, int64_t inner,
                                                   Matrix<const T> a, Matrix<const T> b,
                                                   Matrix<T> c, bool add, T* memory) {
  blocked<Tile<T, 32, 6, 2>>(rows, columns, inner, a, b, c, add, memory);
}
#endif

}  // namespace

int64_t gemm_scratch() { return kInnerBlock * (kRowBlock + kColumnBlock); }

template <typename T>
void gemm(int64_t rows, int64_t columns, int64_t inner, Matrix<const T> a, Matrix<const T> b,
          Matrix<T> c, bool add, T* memory) {
  if (inner == 0 && !add) {
    for (int64_t i = 0; i < rows; ++i)
      std::fill(c.data + i * c.row, c.data + i * c.row + columns, T(0));
    return;
  }
#ifdef GRAPHCHECK_WIDE_VECTORS
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return gemm_avx2(rows, columns, inner, a, b, c, add, memory);
#endif
  // Sixteen vector registers of 16 bytes on x86-64, 32 on arm64.
#if defined(__aarch64__)
  blocked<Tile<T, 16, 8, 2>>(rows, columns, inner, a, b, c, add, memory);
#else
  blocked<Tile<T, 16, 4, 2>>(rows, columns, inner, a, b, c, add, memory);
#endif
}

template void gemm<float>(int64_t, int64_t, int64_t, Matrix<const float>, Matrix<const float>,
                          Matrix<float>, bool, float*);
template void gemm<double>(int64_t, int64_t, int64_t, Matrix<const double>, Matrix<const double>,
                           Matrix<double>, bool, double*);

}  // namespace graphcheck::kernels
