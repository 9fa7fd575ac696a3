#include "convolution.h"

namespace graphcheck::kernels {

bool read_convolution(Context& context, const Arguments& arguments, size_t first,
                      const Tensor& input, const Tensor& weight, const Tensor* result,
                      Convolution& c) {
  const ssize_t rank = input.dim();
  GRAPHCHECK_REQUIRE(context, rank >= 3 && rank <= 5, "input has three to five dims");
  GRAPHCHECK_REQUIRE(context, weight.dim() == rank, "weight has the dims of input");
  const auto dims = static_cast<size_t>(rank - 2);
  const ArrayRef<int64_t> lists[] = {arguments.integers(first), arguments.integers(first + 1),
                                     arguments.integers(first + 2), arguments.integers(first + 4)};
  for (const auto& list : lists) {
    GRAPHCHECK_REQUIRE(context, list.size() == 1 || list.size() == dims,
                       "stride, padding, dilation and output_padding have one value for each dim");
  }
  c.transposed = arguments.flag(first + 3);
  c.groups = arguments.integer(first + 5);
  GRAPHCHECK_REQUIRE(context, c.groups > 0, "groups is above zero");
  c.batch = input.size(0);
  // Of the convolution itself, or of the one whose input gradient this is.
  const int64_t channels = input.size(1);
  if (c.transposed) {
    c.out_channels = channels;
    c.in_channels = weight.size(1) * c.groups;
    GRAPHCHECK_REQUIRE(context, weight.size(0) == channels && channels % c.groups == 0,
                       "weight fits the channels of input and the groups");
  } else {
    c.in_channels = channels;
    c.out_channels = weight.size(0);
    GRAPHCHECK_REQUIRE(context,
                       weight.size(1) * c.groups == channels && c.out_channels % c.groups == 0,
                       "weight fits the channels of input and the groups");
  }
  for (size_t i = 0; i < dims; ++i) {
    const size_t at = 3 - dims + i;
    const auto value = [i](const ArrayRef<int64_t>& list) {
      return list.size() == 1 ? list[0] : list[i];
    };
    c.stride[at] = value(lists[0]);
    c.padding[at] = value(lists[1]);
    c.dilation[at] = value(lists[2]);
    const int64_t more = c.transposed ? value(lists[3]) : 0;
    c.kernel[at] = weight.size(static_cast<ssize_t>(i) + 2);
    const int64_t given = input.size(static_cast<ssize_t>(i) + 2);
    GRAPHCHECK_REQUIRE(context, c.stride[at] > 0 && c.dilation[at] > 0 && c.kernel[at] > 0,
                       "stride, dilation and kernel are above zero");
    GRAPHCHECK_REQUIRE(context, c.padding[at] >= 0, "padding is not negative");
    GRAPHCHECK_REQUIRE(context,
                       more >= 0 && (more == 0 || more < c.stride[at] || more < c.dilation[at]),
                       "output_padding is less than stride or dilation");
    const int64_t reach = c.dilation[at] * (c.kernel[at] - 1) + 1;
    int64_t made;
    if (c.transposed) {
      made = (given - 1) * c.stride[at] - 2 * c.padding[at] + reach + more;
      c.output[at] = given;
      c.input[at] = made;
    } else {
      const int64_t room = given + 2 * c.padding[at] - reach;
      made = room < 0 ? 0 : room / c.stride[at] + 1;
      c.input[at] = given;
      c.output[at] = made;
    }
    GRAPHCHECK_REQUIRE(context, given > 0 && made > 0, "the kernel fits into the padded input");
    GRAPHCHECK_REQUIRE(context,
                       result == nullptr || (result->dim() == rank &&
                                             result->size(static_cast<ssize_t>(i) + 2) == made),
                       "grad_output has the shape that the convolution gives");
  }
  GRAPHCHECK_REQUIRE(
      context,
      result == nullptr || (result->size(0) == c.batch &&
                            result->size(1) == (c.transposed ? c.in_channels : c.out_channels)),
      "grad_output has the batch and the channels that the convolution gives");
  return true;
}

}  // namespace graphcheck::kernels
