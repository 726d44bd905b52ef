// How many threads to use, and the one parallel loop.
#pragma once

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>

#include "core/dtype.h"
#include "longformer/interruption.h"
#include "longformer/threads.h"

namespace longformer {

/// Threads that this process may use: the smallest of CPU affinity, cgroup CPU quota and
/// OMP_NUM_THREADS; at least 1.
int available_threads();

/// The threads that an option asks for: 0 means available_threads(). Throws Error for fewer and for
/// more than kMostThreads.
int checked_threads(std::int64_t wanted);

/// How many threads the calling thread may have of those that it wants: all; but one when it came
/// out of a fork and had a team before, since it would wait for threads that the fork did not copy.
int team_size(int wanted);

/// What interrupts a parallel loop: no exception may leave the loop, so it waits for the end.
class LoopInterruption {
 public:
  /// Whether what is left of the loop is left out. Asks on the thread that began the loop.
  bool ends() {
    if (omp_get_thread_num() == 0 && omp_get_level() == 1) ask();
    return ended_.load(std::memory_order_relaxed);
  }
  /// Throws what interrupted the loop, if anything did.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void ask();

  std::atomic<bool> ended_ = false;
  std::exception_ptr failure_ = nullptr;
};

/// Calls body(index) for every index below count, handed out one by one to `threads` threads.
/// The body must not throw. An Interruption of the calling thread may: what it throws leaves the
/// loop, of which some indices are then missing.
template <typename Body>
void parallel_for(int threads, Index count, Body&& body) {
  const int team = count <= 1 ? 1 : team_size(threads);
  if (team <= 1) {
    for (Index i = 0; i < count; ++i) {
      Interruption::poll();
      body(i);
    }
    return;
  }
  LoopInterruption interruption;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (Index i = 0; i < count; ++i) {
    if (!interruption.ends()) body(i);
  }
  interruption.rethrow();
}

/// As long as it lives, parallel regions that this thread begins have at most so many threads, also
/// inside libraries.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(team_size(threads));
  }
  ~ThreadLimit() { omp_set_num_threads(before_); }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

/// Calls `make` with at most so many threads and returns its result.
template <typename Make>
auto with_threads(int threads, Make&& make) {
  const ThreadLimit limit(threads);
  return make();
}

/// Threads that a parallel region begun here may have: 1 inside parallel_for.
inline int free_threads() { return omp_in_parallel() != 0 ? 1 : omp_get_max_threads(); }

/// Number of the calling thread inside parallel_for: 0 … threads − 1.
inline int thread_number() { return omp_get_thread_num(); }

}  // namespace longformer
