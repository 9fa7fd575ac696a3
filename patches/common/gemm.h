// Matrix products in blocks: C (+)= A B for matrices of any strides, single thread.
#pragma once

#include "kernel.h"

namespace graphcheck::kernels {

// A matrix: the element at row r, column c is `data[r * row + c * column]`.
template <typename T>
struct Matrix {
  T* data;
  int64_t row;
  int64_t column;
};

// Memory that one product needs, in elements of its type, for any sizes.
int64_t gemm_scratch();

// C = A B, or C += A B with `add`. A is rows x inner, B inner x columns. Columns of C are
// contiguous. Products and sums are in T; `memory` holds `gemm_scratch()` elements.
template <typename T>
void gemm(int64_t rows, int64_t columns, int64_t inner, Matrix<const T> a, Matrix<const T> b,
          Matrix<T> c, bool add, T* memory);

}  // namespace graphcheck::kernels
