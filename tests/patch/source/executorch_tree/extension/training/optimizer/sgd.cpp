#include "mini.h"

namespace executorch {
namespace extension {

struct SGD {
  std::map<std::string, Tensor> parameters;
  double rate = 0.5;
  Error step(const std::map<std::string, Tensor>& gradients);
};

Error SGD::step(const std::map<std::string, Tensor>& gradients) {
  for (auto entry = parameters.begin(); entry != parameters.end(); ++entry) {
    const auto& named = gradients.find(entry->first);
    if (named != gradients.end()) {
      auto slope = named->second;
      auto p = entry->second;
      for (int64_t at = 0; at < p.numel(); ++at) {
        float* value = entry->second.mutable_data_ptr<float>() + at;
        *value -= rate * slope.const_data_ptr<float>()[at];
      }
    }
  }
  return Error::Ok;
}

Error step_once(const Tensor& parameter, const Tensor& gradient) {
  SGD optimizer{{{"p", parameter}}};
  return optimizer.step({{"p", gradient}});
}

}  // namespace extension
}  // namespace executorch
