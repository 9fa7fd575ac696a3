// Two patches of operators that the runtime has right, one kernel of ours right and one wrong, and
// a patch of an operator that the runtime has though it was thought to be missing.
#include "../../../patches/common/install.h"

namespace graphcheck::kernels {
namespace {

void copy(Context&, Stack stack, float sign) {
  const Arguments arguments(stack);
  const Tensor& input = arguments.tensor(0);
  const auto* from = data_of<float>(input);
  auto* to = mutable_data_of<float>(arguments.out(1));
  for (int64_t i = 0; i < input.numel(); ++i) to[i] = sign * from[i];
}

void negated(Context& context, Stack stack) { copy(context, stack, -1); }
void same(Context& context, Stack stack) { copy(context, stack, 1); }

void keys(Keys& keys) { keys.add({plain(ScalarType::Float, 1), plain(ScalarType::Float, 1)}); }

void probe(Probe& probe) {
  probe.tensor(ScalarType::Float, {2}, {1, -2});
  probe.output(ScalarType::Float, {2});
  probe.run(0);
}

const bool installed = install({"aten::neg.out", negated, keys, probe}) &&
                       install({"aten::abs.out", same, keys, probe}) &&
                       install({"aten::exp.out", same, nullptr, nullptr}) &&
                       install({"graphcheck::nobody_has_it.out", same, nullptr, nullptr});

}  // namespace
}  // namespace graphcheck::kernels
