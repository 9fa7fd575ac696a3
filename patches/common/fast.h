// Whether convolutions that the runtime computes right are replaced, too, for speed: a choice of
// the build (-DGRAPHCHECK_FAST_CONVOLUTION).
#pragma once

namespace graphcheck::kernels {

#ifdef GRAPHCHECK_FAST_CONVOLUTION
inline constexpr bool kFastConvolution = true;
#else
inline constexpr bool kFastConvolution = false;
#endif

}  // namespace graphcheck::kernels
