// How many threads the library may be asked to compute on.
#pragma once

namespace longformer {

/// More is an Error wherever a number of threads is an option; 0 always takes what CPU affinity,
/// the cgroup quota, OMP_NUM_THREADS and OMP_THREAD_LIMIT allow. A number that is given counts
/// against all of these but OMP_THREAD_LIMIT. Inside a parallel region of OpenMP every call
/// computes on one thread. A call leaves the OpenMP settings of its thread as they are, and
/// callbacks run with them; dynamic teams (OMP_DYNAMIC) and OMP_MAX_ACTIVE_LEVELS change no call.
inline constexpr int kMostThreads = 1024;

}  // namespace longformer
