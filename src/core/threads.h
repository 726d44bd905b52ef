// How many threads compute, the teams that they form, and the one parallel loop.
//
// A team is a number of threads that is promised and kept. Other parts of the process may ask
// OpenMP for dynamic teams, for fewer threads or for none, and a product that is cut for more
// threads than come is garbage. ThreadLimit finds out how many threads come; ExactTeam makes
// exactly as many come. Outside their lives the settings of the calling thread are as its owner
// left them.
#pragma once

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>

#include "core/dtype.h"
#include "longformer/options.h"
#include "longformer/report.h"

namespace longformer {

/// Threads that this process may use: the smallest of CPU affinity, cgroup CPU quota,
/// OMP_NUM_THREADS and OMP_THREAD_LIMIT; at least 1.
int available_threads();

/// The threads that an option asks for: 0 means available_threads(). Throws Error for fewer and for
/// more than kMostThreads.
int checked_threads(std::int64_t wanted);
/// Throws Error for a number of threads that checked_threads() refuses.
void check_threads(std::int64_t wanted);

/// Threads that a parallel region begun here may have, and that a product should be cut for: the
/// innermost ThreadLimit of this thread; without one what OpenMP gives. 1 inside every parallel
/// region, of parallel_for or of a caller, and on a thread that came out of a fork and had a team
/// before: it would wait for threads that the fork did not copy.
int free_threads();

/// Number of the calling thread inside the innermost parallel_for: 0 … threads − 1.
int thread_number();

/// Ends the threads that OpenMP keeps for the calling thread; its next loop makes new ones. Outside
/// of parallel regions. Does nothing with LLVM's runtime, which would end those of others too.
void end_team();

/// How long the threads of this thread's team were ready and had no core, in all their lives
/// together; 0 where the kernel does not say it.
double seconds_without_core();

/// While it lives, loops and products of this thread have at most so many threads. Their first one
/// counts the threads that really come: a limit of OpenMP (OMP_THREAD_LIMIT, a parallel region of
/// the caller) makes fewer of those wanted. Throws Error when a thread's stack is too small, and so
/// do free_threads() and parallel_for.
class ThreadLimit {
 public:
  /// How many threads there are, or are wanted as long as nobody has counted them; 0: no limit.
  struct Team {
    int size = 0;
    bool is_counted = false;
  };

  explicit ThreadLimit(int wanted);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  Team outer_;
};

/// While it lives, a parallel region that this thread begins, also inside a library, has exactly so
/// many threads: dynamic teams are off and one level of parallel regions is on. No code of a caller
/// runs meanwhile. At most free_threads(). Throws Error for several threads inside a parallel
/// region.
class ExactTeam {
 public:
  explicit ExactTeam(int threads);
  ~ExactTeam();
  ExactTeam(const ExactTeam&) = delete;
  ExactTeam& operator=(const ExactTeam&) = delete;

 private:
  int threads_, levels_, dynamic_;
};

/// Calls `make` with at most so many threads and returns its result.
template <typename Make>
auto with_threads(int threads, Make&& make) {
  const ThreadLimit limit(threads);
  return make();
}

/// One parallel_for: its team, and what interrupts it. No exception may leave a parallel region, so
/// that of an Interruption waits for the end.
class ParallelLoop {
 public:
  explicit ParallelLoop(int wanted);
  ~ParallelLoop();
  ParallelLoop(const ParallelLoop&) = delete;
  ParallelLoop& operator=(const ParallelLoop&) = delete;

  int threads() const { return threads_; }
  /// Whether what is left of the loop is left out. Asks on the thread that began the loop.
  bool ends() {
    if (asks_ && omp_get_thread_num() == 0) ask();
    return ended_.load(std::memory_order_relaxed);
  }
  /// Throws what interrupted the loop, if anything did.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void ask();

  int threads_;
  /// State of the thread before this object.
  bool was_alone_, was_in_region_;
  bool asks_ = false;
  std::optional<ExactTeam> team_;
  std::atomic<bool> ended_ = false;
  std::exception_ptr failure_ = nullptr;
};

/// Calls body(index) for every index below count, handed out one by one to at most `threads`
/// threads. The body must not throw. An Interruption of the calling thread may: what it throws
/// leaves the loop, of which some indices are then missing.
template <typename Body>
void parallel_for(int threads, Index count, Body&& body) {
  ParallelLoop loop(count <= 1 ? 1 : threads);
  if (loop.threads() == 1) {
    for (Index i = 0; i < count; ++i) {
      Interruption::poll();
      body(i);
    }
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(loop.threads())
  for (Index i = 0; i < count; ++i) {
    if (!loop.ends()) body(i);
  }
  loop.rethrow();
}

}  // namespace longformer
