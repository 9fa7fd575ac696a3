// Training as an app on a device does it: by the program's own training metadata.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "session.h"

namespace graphcheck {

using executorch::aten::BFloat16;
using executorch::aten::Half;
using executorch::aten::ScalarType;

// Gradients and parameters by name. They alias the method's memory: writing to a parameter is
// the optimizer's step.
struct Training {
  size_t gradients_index = 0;
  size_t parameters_index = 0;
  std::vector<std::pair<std::string, Tensor>> gradients;
  std::vector<std::pair<std::string, Tensor>> parameters;
};

// What a constant method gives. Copied: strings live in the memory of the method.
struct Constants {
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;
};

inline Constants run_constant(const Package& package, const std::string& name) {
  try {
    Session session(package, name, Fill::kZero);
    session.run(Stage::kMetadata, [](int32_t index) { return index + 1; });
    Constants constants;
    for (size_t i = 0; i < session.method().outputs_size(); ++i) {
      const EValue& value = session.method().get_output(i);
      if (value.isInt()) constants.numbers.push_back(value.toInt());
      if (value.isString()) constants.texts.emplace_back(value.toString());
    }
    return constants;
  } catch (const Failure& failure) {
    throw Failure{Stage::kMetadata, failure.error, "the program has no method " + name};
  }
}

inline std::string shape_of(const Tensor& tensor) {
  std::string text = "[";
  for (ssize_t i = 0; i < tensor.dim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.size(i));
  }
  return text + "]";
}

inline const Tensor& output_tensor(const Method& method, size_t index, const std::string& what) {
  const EValue& value = method.get_output(index);
  if (!value.isTensor()) {
    throw Failure{Stage::kMetadata, Error::InvalidType,
                  what + " is output " + std::to_string(index) + ", which is no tensor"};
  }
  return value.toTensor();
}

// Gradients are the outputs from the one index to the other, parameters from there to the end;
// both take the names in order. Nothing here checks that a name gets its own tensor.
inline Training read_training(const Package& package, Method& method, const std::string& name) {
  set_stage(Stage::kMetadata);
  Training training;
  const auto gradients = run_constant(package, "__et_training_gradients_index_" + name);
  const auto parameters = run_constant(package, "__et_training_parameters_index_" + name);
  const auto names = run_constant(package, "__et_training_fqn_" + name).texts;
  if (gradients.numbers.size() != 1 || parameters.numbers.size() != 1) {
    throw Failure{Stage::kMetadata, Error::InvalidProgram, "the indices are not single numbers"};
  }
  const int64_t first = gradients.numbers[0];
  const int64_t middle = parameters.numbers[0];
  const auto count = static_cast<int64_t>(method.outputs_size());
  if (first < 0 || middle < first || middle > count) {
    throw Failure{Stage::kMetadata, Error::InvalidProgram,
                  "gradients start at output " + std::to_string(first) + ", parameters at " +
                      std::to_string(middle) + ", and there are " + std::to_string(count)};
  }
  const auto name_at = [&names](size_t i) {
    if (i >= names.size()) {
      throw Failure{Stage::kMetadata, Error::InvalidProgram,
                    "there are more gradients or parameters than the " +
                        std::to_string(names.size()) + " names"};
    }
    return names[i];
  };
  training.gradients_index = static_cast<size_t>(first);
  training.parameters_index = static_cast<size_t>(middle);
  for (size_t i = training.gradients_index; i < training.parameters_index; ++i) {
    const auto key = name_at(i - training.gradients_index);
    training.gradients.emplace_back(key, output_tensor(method, i, "the gradient of " + key));
  }
  for (size_t i = training.parameters_index; i < method.outputs_size(); ++i) {
    const auto key = name_at(i - training.parameters_index);
    training.parameters.emplace_back(key, output_tensor(method, i, "parameter " + key));
  }
  return training;
}

inline double first_number(const EValue& value) {
  if (value.isDouble()) return value.toDouble();
  if (value.isInt()) return static_cast<double>(value.toInt());
  if (!value.isTensor() || value.toTensor().numel() < 1) return std::nan("");
  const Tensor& tensor = value.toTensor();
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return *static_cast<const float*>(tensor.const_data_ptr());
    case ScalarType::Double:
      return *static_cast<const double*>(tensor.const_data_ptr());
    case ScalarType::Half:
      return static_cast<float>(*static_cast<const Half*>(tensor.const_data_ptr()));
    case ScalarType::BFloat16:
      return static_cast<float>(*static_cast<const BFloat16*>(tensor.const_data_ptr()));
    default:
      return std::nan("");
  }
}

}  // namespace graphcheck
