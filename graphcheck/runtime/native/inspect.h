// Looking at single instructions: the stale-output detector and the dump.
#pragma once

#include "session.h"
#include "wire.h"

namespace graphcheck {

// Finds instructions whose outputs depend on what their memory held before; 'I' records.
void detect_stale(const Request& request, const Package& package, const Session& training,
                  std::vector<Array>& batch, Trace& trace);

// Writes what every instruction (or those asked for) is given and gives; 'D' records.
void dump_step(const Request& request, const Package& package, const Session& training,
               std::vector<Array>& batch, Trace& trace);

}  // namespace graphcheck
