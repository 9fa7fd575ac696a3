#include "install.h"

#include <deque>

#include "quiet.h"

// How many kernels the registry of this runtime takes; the runtime itself does not tell, and
// ends the process when there are more.
#ifndef GRAPHCHECK_REGISTRY_SIZE
#define GRAPHCHECK_REGISTRY_SIZE 2000
#endif

namespace graphcheck::kernels {
namespace {

using executorch::runtime::Kernel;
using executorch::runtime::KernelKey;

// Names and keys must live as long as the registry. Made at first use, since kernels of other
// files may install themselves first; never destroyed, since they may be used last.
std::deque<std::string>& kept() {
  static auto* strings = new std::deque<std::string>();
  return *strings;
}

std::string& report() {
  static auto* text = new std::string();
  return *text;
}

void tell(const Patch& patch, const std::string& what) {
  report() += std::string(patch.name) + "\t" + what + "\n";
}

// Not through the registry's own look-up, which logs an error for what is not there.
const Kernel* registered(const char* name, const char* key) {
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    if (std::strcmp(kernel.name_, name) != 0) continue;
    const char* own = kernel.kernel_key_.data();
    if (key == nullptr ? own == nullptr : own != nullptr && std::strcmp(own, key) == 0) {
      return &kernel;
    }
  }
  return nullptr;
}

size_t room() {
  const size_t used = executorch::runtime::get_registered_kernels().size();
  return used < GRAPHCHECK_REGISTRY_SIZE ? GRAPHCHECK_REGISTRY_SIZE - used : 0;
}

bool is_right(const Patch& patch, OpFunction stock) {
  if (patch.keys == nullptr || patch.probe == nullptr) return patch.keys == nullptr;
  const Quiet quiet;
  Probe probe(stock, patch.kernel);
  patch.probe(probe);
  return probe.agrees();
}

}  // namespace

bool install(const Patch& patch) {
  const Kernel* stock = registered(patch.name, nullptr);
  if (stock == nullptr) {
    if (room() == 0) {
      tell(patch, "left out: the registry is full");
      return false;
    }
    const Kernel kernel(patch.name, patch.kernel);
    const Error error = executorch::runtime::register_kernels({&kernel, 1});
    tell(patch, "registered: the runtime has none");
    return error == Error::Ok;
  }
  if (stock->op_ == patch.kernel) return true;
  if (patch.stock != nullptr) *patch.stock = stock->op_;
  if (is_right(patch, stock->op_)) {
    tell(patch, "left out: the runtime's own is right");
    return true;
  }
  Keys keys;
  patch.keys(keys);
  std::vector<Kernel> kernels;
  for (const auto& key : keys.list()) {
    if (registered(patch.name, key.c_str()) != nullptr) continue;
    kept().push_back(key);
    kernels.emplace_back(patch.name, KernelKey(kept().back().c_str()), patch.kernel);
  }
  if (kernels.size() > room()) {
    tell(patch,
         "left out: the registry has no room for its " + std::to_string(kernels.size()) + " keys");
    return false;
  }
  if (kernels.empty()) {
    tell(patch, "left out: its keys are taken");
    return true;
  }
  tell(patch, "registered: " + std::to_string(kernels.size()) + " keys");
  return executorch::runtime::register_kernels({kernels.data(), kernels.size()}) == Error::Ok;
}

}  // namespace graphcheck::kernels

const char* graphcheck_kernels_report(void) { return graphcheck::kernels::report().c_str(); }
