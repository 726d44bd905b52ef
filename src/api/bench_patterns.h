// Timing one layer of the attentions that are no band: Linformer and Performer.
#pragma once

#include "api/measurement.h"
#include "core/dtype.h"

namespace longformer {

/// For AttentionBenchOptions::pattern "linformer" and "performer".
BenchResult bench_pattern(const AttentionBenchOptions& options, DType dtype, int threads);

}  // namespace longformer
