// longformer bench --report: the rows of docs/benchmarks.md for the machine at hand.
#pragma once

#include <cstdint>

#include "messages.h"

namespace longformer::cli {

/// Measures attention, a forward pass and a training step of the size of Longformer-base and prints
/// a Markdown table under the name of the CPU, each row when it is there.
void report_machine(std::int64_t threads, Messages& messages);

}  // namespace longformer::cli
