// longformer bench --report: the rows of docs/benchmarks.md for the machine at hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages.h"

namespace longformer::cli {

/// Measures attention, forward passes, training steps and writing, and prints a Markdown table
/// under the name of the CPU, each row when it is there. Each file is a config.json that takes the
/// place of Longformer-base, LED-base or the Transformer-XL, by its model_type.
void report_machine(const std::vector<std::string>& configs, std::int64_t threads,
                    Messages& messages);

}  // namespace longformer::cli
