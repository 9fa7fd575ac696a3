#include "mini.h"

namespace torch::executor {

template <typename CTYPE>
void conv2d_impl(const CTYPE* in, const CTYPE* weight, CTYPE* out, size_t places, size_t terms,
                 bool transposed) {
  if (!transposed) {
    for (const auto place : c10::irange(places)) {
      CTYPE total = 0.0f;
      for (const auto term : c10::irange(terms)) {
        CTYPE in_val = in[place + term];
        CTYPE w_val = weight[term];
        total += in_val * w_val;
      }
      out[place] = total;
    }
  } else {
    for (const auto place : c10::irange(places)) {
      for (const auto term : c10::irange(terms)) {
        out[place + term] += in[place] * weight[term];
      }
    }
  }
}

void convolve(const Half* in, const Half* weight, Half* out, size_t places, size_t terms) {
  conv2d_impl<Half>(in, weight, out, places, terms, false);
}

}  // namespace torch::executor
