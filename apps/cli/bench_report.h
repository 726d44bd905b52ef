// longformer bench --report: the rows of docs/benchmarks.md for the machine at hand.
#pragma once

#include <cstdint>
#include <string>

#include "messages.h"

namespace longformer::cli {

/// Measures attention, forward passes and a training step of a model of this config.json (empty:
/// Longformer-base) and prints a Markdown table under the name of the CPU, each row when it is
/// there.
void report_machine(const std::string& config, std::int64_t threads, Messages& messages);

}  // namespace longformer::cli
