// How many threads the library may be asked to compute on.
#pragma once

namespace longformer {

/// More is an Error wherever a number of threads is an option; 0 always takes what CPU affinity,
/// the cgroup quota and OMP_NUM_THREADS allow.
inline constexpr int kMostThreads = 1024;

}  // namespace longformer
