#include <executorch/runtime/kernel/operator_registry.h>

#include <cstdlib>
#include <deque>

#include "mutants.h"

namespace mutants {
namespace {

using executorch::runtime::Kernel;
using executorch::runtime::KernelKey;

Entry chosen;
OpFunction stock = nullptr;

void kernel(Context& context, Stack stack) {
  Call call{context, stack, stock, Arguments(stack)};
  chosen.run(call);
}

int number_of(char letter) {
  switch (letter) {
    case 'f':
      return 6;
    case 'b':
      return 15;
    case 'l':
      return 4;
    default:
      return 11;
  }
}

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find(mark, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

void add_keys(const std::string& slots, std::deque<std::string>& keys) {
  const bool several = slots.find('!') != std::string::npos;
  std::vector<std::string> found{""};
  std::vector<std::string> last{""};
  for (const std::string& slot : split(slots, ' ')) {
    if (slot == "!") continue;
    std::vector<std::string> next, ends;
    for (const std::string& begin : found) {
      for (size_t i = 1; i < slot.size(); ++i) {
        std::string part = std::to_string(number_of(slot[0])) + ";";
        for (int dim = 0; dim < slot[i] - '0'; ++dim) {
          part += (dim > 0 ? "," : "") + std::to_string(dim);
        }
        next.push_back(begin + (begin.empty() ? "" : "|") + part);
        ends.push_back(part);
      }
    }
    found = next;
    last = ends;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    keys.push_back("v1/" + found[i] + (several ? "" : "|" + last[i]));
  }
}

}  // namespace

bool offer(const Entry& entry) {
  const char* wanted = std::getenv("GRAPHCHECK_MUTANT");
  if (wanted == nullptr || std::string(wanted) != entry.name) return false;
  chosen = entry;
  for (const auto& own : executorch::runtime::get_registered_kernels()) {
    if (std::string(own.name_) == entry.op && own.kernel_key_.is_fallback()) stock = own.op_;
  }
  static auto* keys = new std::deque<std::string>();
  for (const std::string& slots : split(entry.slots, ';')) add_keys(slots, *keys);
  std::vector<Kernel> kernels;
  for (const auto& key : *keys) kernels.emplace_back(entry.op, KernelKey(key.c_str()), kernel);
  return executorch::runtime::register_kernels({kernels.data(), kernels.size()}) ==
         executorch::runtime::Error::Ok;
}

}  // namespace mutants
