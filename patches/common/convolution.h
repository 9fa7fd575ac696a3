// Convolutions of one to three dims as products of matrices, on numbers in row-major order.
//
// With K = channels of a group times the taps of the kernel, and one column for each place of the
// output, the convolution of a group is weights [O x K] times windows [K x columns]. The gradient
// of the input is the transposed product, put back into place; that of the weights is gradient
// [O x columns] times the windows transposed. Columns are taken in blocks, so that memory stays
// small, and run over the images of a batch where an image has few of them.
#pragma once

#include "gemm.h"

namespace graphcheck::kernels {

// Sizes along depth, height and width; 1 where a convolution has fewer dims. A transposed
// convolution is told by the convolution whose input gradient it is: `input` is then its output.
struct Convolution {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t input[3] = {1, 1, 1};
  int64_t output[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
  bool transposed = false;

  int64_t in_group() const { return in_channels / groups; }
  int64_t out_group() const { return out_channels / groups; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_places() const { return input[0] * input[1] * input[2]; }
  int64_t out_places() const { return output[0] * output[1] * output[2]; }
  int64_t weights() const { return out_channels * in_group() * taps(); }
};

// Reads the arguments stride, padding, dilation, transposed, output_padding and groups from `first`
// on, and checks them with input and weight. Where the shape of what the convolution gives is known
// (`result`), it must be right.
bool read_convolution(Context& context, const Arguments& arguments, size_t first,
                      const Tensor& input, const Tensor& weight, const Tensor* result,
                      Convolution& convolution);

// The three products. Each writes all of its result, fails the call without memory for blocks.
// T is float or double.
template <typename T>
void convolve(Context& context, const Convolution& convolution, const T* input, const T* weight,
              T* output);
template <typename T>
void input_gradient(Context& context, const Convolution& convolution, const T* gradient,
                    const T* weight, T* result);
template <typename T>
void weight_gradient(Context& context, const Convolution& convolution, const T* gradient,
                     const T* input, T* result);

}  // namespace graphcheck::kernels
