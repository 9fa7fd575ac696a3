// SGD with momentum, Adam and AdamW, as torch.optim defines them (without foreach and fused).
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "training.h"

namespace graphcheck {

// Arithmetic is in the parameter's dtype: every operation of torch.optim rounds to it once, and is
// computed in float for half types. With g the gradient and p the parameter:
//   sgd    g += decay * p;  m = g at first, then m = momentum * m + g;  p -= rate * m
//   adam   g += decay * p;  m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g * g;
//          p -= rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   adamw  p *= 1 - rate * decay;  then as adam with decay 0
class Updater {
 public:
  explicit Updater(const Request& request) : request_(request) {}

  // One step, for the parameters that have a gradient.
  void update(Training& training) {
    set_stage(Stage::kUpdate);
    ++steps_;
    std::map<std::string, Tensor*> gradients;
    for (auto& [name, gradient] : training.gradients) gradients.emplace(name, &gradient);
    for (auto& [name, parameter] : training.parameters) {
      const auto found = gradients.find(name);
      if (found != gradients.end()) update_one(name, parameter, *found->second);
    }
  }

 private:
  struct State {
    std::vector<uint8_t> first;   // momentum, or the mean of the gradients
    std::vector<uint8_t> second;  // the mean of their squares
  };

  void update_one(const std::string& name, Tensor& parameter, const Tensor& gradient) {
    if (shape_of(gradient) != shape_of(parameter) ||
        gradient.scalar_type() != parameter.scalar_type()) {
      throw Failure{Stage::kUpdate, Error::InvalidArgument,
                    name + ": the gradient has shape " + shape_of(gradient) + ", the parameter " +
                        shape_of(parameter)};
    }
    switch (parameter.scalar_type()) {
      case ScalarType::Float:
        return apply<float, float>(name, parameter, gradient);
      case ScalarType::Double:
        return apply<double, double>(name, parameter, gradient);
      case ScalarType::Half:
        return apply<Half, float>(name, parameter, gradient);
      case ScalarType::BFloat16:
        return apply<BFloat16, float>(name, parameter, gradient);
      default:
        throw Failure{Stage::kUpdate, Error::NotSupported, name + ": is not of a floating dtype"};
    }
  }

  template <typename T, typename Wide>
  void apply(const std::string& name, Tensor& parameter, const Tensor& gradient) {
    auto* to = static_cast<T*>(parameter.mutable_data_ptr());
    const auto* from = static_cast<const T*>(gradient.const_data_ptr());
    const auto count = static_cast<size_t>(parameter.numel());
    if (request_.optimizer == Optimizer::kSgd) {
      sgd<T, Wide>(name, to, from, count);
    } else {
      adam<T, Wide>(name, to, from, count);
    }
  }

  template <typename T, typename Wide>
  void sgd(const std::string& name, T* to, const T* from, size_t count) {
    const auto rate = static_cast<Wide>(request_.learning_rate);
    const auto decay = static_cast<Wide>(request_.weight_decay);
    const auto momentum = static_cast<Wide>(request_.momentum);
    T* kept = momentum != 0 ? memory<T>(states_[name].first, count) : nullptr;
    for (size_t i = 0; i < count; ++i) {
      T slope = from[i];
      if (decay != 0) slope = static_cast<T>(wide<Wide>(slope) + decay * wide<Wide>(to[i]));
      if (kept != nullptr && steps_ > 1) {
        const auto slowed = static_cast<T>(wide<Wide>(kept[i]) * momentum);
        slope = static_cast<T>(wide<Wide>(slowed) + wide<Wide>(slope));
      }
      if (kept != nullptr) kept[i] = slope;
      to[i] = static_cast<T>(wide<Wide>(to[i]) - rate * wide<Wide>(slope));
    }
  }

  template <typename T, typename Wide>
  void adam(const std::string& name, T* to, const T* from, size_t count) {
    const bool decoupled = request_.optimizer == Optimizer::kAdamW;
    const double steps = static_cast<double>(steps_);
    const double correction = 1 - std::pow(request_.beta1, steps);
    const auto rate = static_cast<Wide>(-(request_.learning_rate / correction));
    const auto spread = static_cast<Wide>(std::sqrt(1 - std::pow(request_.beta2, steps)));
    const auto decay = static_cast<Wide>(request_.weight_decay);
    const auto shrink = static_cast<Wide>(1 - request_.learning_rate * request_.weight_decay);
    const auto weight = static_cast<Wide>(1 - request_.beta1);
    const auto beta2 = static_cast<Wide>(request_.beta2);
    const auto rest = static_cast<Wide>(1 - request_.beta2);
    const auto eps = static_cast<Wide>(request_.eps);
    State& state = states_[name];
    T* mean = memory<T>(state.first, count);
    T* square = memory<T>(state.second, count);
    for (size_t i = 0; i < count; ++i) {
      T slope = from[i];
      if (decay != 0 && decoupled) to[i] = static_cast<T>(wide<Wide>(to[i]) * shrink);
      if (decay != 0 && !decoupled) {
        slope = static_cast<T>(wide<Wide>(slope) + decay * wide<Wide>(to[i]));
      }
      const auto g = wide<Wide>(slope);
      const auto m = wide<Wide>(mean[i]);
      // From the nearer end, as torch.lerp does.
      mean[i] = static_cast<T>(weight < 0.5 ? m + weight * (g - m) : g - (g - m) * (1 - weight));
      square[i] = static_cast<T>(wide<Wide>(square[i]) * beta2);
      square[i] = static_cast<T>(wide<Wide>(square[i]) + rest * g * g);
      auto below = static_cast<T>(std::sqrt(wide<Wide>(square[i])));
      below = static_cast<T>(wide<Wide>(below) / spread);
      below = static_cast<T>(wide<Wide>(below) + eps);
      to[i] = static_cast<T>(wide<Wide>(to[i]) + rate * wide<Wide>(mean[i]) / wide<Wide>(below));
    }
  }

  template <typename Wide, typename T>
  static Wide wide(T value) {
    return static_cast<Wide>(value);
  }

  // Zeros at first.
  template <typename T>
  static T* memory(std::vector<uint8_t>& bytes, size_t count) {
    bytes.resize(count * sizeof(T), 0);
    return reinterpret_cast<T*>(bytes.data());
  }

  const Request& request_;
  std::map<std::string, State> states_;
  uint64_t steps_ = 0;
};

}  // namespace graphcheck
