// Timing and figures, shared by the benchmarks of models, attention and training.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "core/error.h"
#include "engine/run/machine_rate.h"
#include "longformer/analysis.h"

namespace longformer {

/// Throws Error for an option, by its name, that is below 1.
inline void check_positive(std::initializer_list<std::pair<const char*, std::int64_t>> options) {
  for (const auto& [name, value] : options) {
    require(value >= 1, "{}: expected at least 1, found {}", name, value);
  }
}

/// Largest resident set of this process so far.
std::int64_t peak_resident_bytes();

/// Bytes per second at which the threads read memory that no cache holds.
double read_rate(int threads);

/// The figures of a measurement of n tokens. The GEMM rate is measured here, at the end, so that
/// its matrices do not count as memory of the work.
BenchResult result_of(const Timing& timing, std::int64_t n, const std::string& dtype, double flops,
                      int threads);

}  // namespace longformer
