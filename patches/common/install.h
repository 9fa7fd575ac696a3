// How a kernel comes into the runtime's registry, and when it stays out.
#pragma once

#include "keys.h"
#include "probe.h"

namespace graphcheck::kernels {

// One kernel for one operator of the registry.
struct Patch {
  const char* name;
  OpFunction kernel;
  // For which calls it stands in for the runtime's own kernel. Null for an operator that no known
  // runtime has: if this one has it after all, its own is kept.
  void (*keys)(Keys&);
  // Tiny calls on which known runtimes are wrong or refuse. The kernel stays out where the
  // runtime's own gives the same.
  void (*probe)(Probe&);
  // Takes the runtime's own kernel, for calls that it runs right.
  OpFunction* stock = nullptr;
};

// Registers the kernel. Never fails: what is there already stays as it is.
bool install(const Patch& patch);

}  // namespace graphcheck::kernels

extern "C" {
// One line per kernel of this library: its name, a tab, and what became of it.
__attribute__((visibility("default"))) const char* graphcheck_kernels_report(void);
}
