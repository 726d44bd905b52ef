#include "core/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "core/error.h"

namespace longformer {
namespace {

int affinity_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return omp_get_num_procs();
  return CPU_COUNT(&set);
}

/// CPUs that a quota of "quota period" allows; 0 when there is none.
int threads_of_quota(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return std::max(1, static_cast<int>(std::floor(quota / period + 0.5)));
}

/// Path of this process in the unified cgroup hierarchy ("0::/path" in /proc/self/cgroup).
std::string cgroup_path() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "/";
}

int cgroup_threads() {
  int allowed = 0;
  std::string path = cgroup_path();
  // A quota of any ancestor binds too.
  while (true) {
    std::ifstream file("/sys/fs/cgroup" + (path == "/" ? "" : path) + "/cpu.max");
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max") {
      const int here = threads_of_quota(std::strtod(quota.c_str(), nullptr), period);
      if (here > 0) allowed = allowed == 0 ? here : std::min(allowed, here);
    }
    const auto slash = path.rfind('/');
    if (path.size() <= 1 || slash == std::string::npos) break;
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (quota_file >> quota && period_file >> period) {
    const int here = threads_of_quota(quota, period);
    if (here > 0) allowed = allowed == 0 ? here : std::min(allowed, here);
  }
  return allowed;
}

/// State of a thread.
struct ThreadState {
  /// Team of the innermost ThreadLimit.
  ThreadLimit::Team team;
  /// Whether it began a parallel region of parallel_for and is still inside.
  bool in_region = false;
  /// Whether its innermost parallel_for has no parallel region.
  bool alone = false;
  /// Whether its stack was found large enough.
  bool has_room = false;
  /// Whether the OpenMP runtime keeps threads for it, and whether those were lost in a fork.
  bool had_team = false, lost_team = false;
};

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

/// Runs in the new process, on the thread that forked: the only one that is left.
void after_fork() {
  ThreadState& state = this_thread();
  state.lost_team = state.had_team;
}

/// The least stack of a thread that computes.
constexpr std::size_t kLeastStack = std::size_t{256} << 10;

/// Bytes of the calling thread's stack.
std::size_t stack_bytes() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return kLeastStack;
  std::size_t bytes = kLeastStack;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

void check_stack(std::size_t bytes) {
  require(bytes >= kLeastStack,
          "stack: expected at least {} KB for each thread, found {} KB: raise `ulimit -s` or "
          "OMP_STACKSIZE",
          kLeastStack >> 10, bytes >> 10);
}

void check_own_stack() {
  ThreadState& state = this_thread();
  if (state.has_room) return;
  check_stack(stack_bytes());
  state.has_room = true;
}

/// How many threads come when so many are wanted: a parallel region that counts them.
int team_that_comes(int wanted) {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, after_fork);
  this_thread().had_team = true;
  int size = 1;
  std::atomic<std::size_t> least_stack = kLeastStack;
  {
    const ExactTeam team(wanted);
#pragma omp parallel num_threads(wanted)
    {
      if (omp_get_thread_num() == 0) size = omp_get_num_threads();
      ThreadState& state = this_thread();
      const std::size_t bytes = state.has_room ? kLeastStack : stack_bytes();
      state.has_room = bytes >= kLeastStack;
      // Only a thread that lacks room writes, and one of them is enough to know.
      if (!state.has_room) least_stack = bytes;
    }
  }
  check_stack(least_stack);
  return size;
}

/// How long the calling thread was ready and had no core, in nanoseconds.
std::int64_t own_wait() {
  // "ns on a core, ns ready without one, slices"
  std::ifstream file("/proc/thread-self/schedstat");
  std::int64_t computed = 0, waited = 0;
  return file >> computed >> waited ? waited : 0;
}

/// Whether the calling thread must compute alone.
bool is_single() { return this_thread().lost_team || omp_in_parallel() != 0; }

}  // namespace

int available_threads() {
  int threads = affinity_threads();
  if (const int quota = cgroup_threads(); quota > 0) threads = std::min(threads, quota);
  if (const char* wanted = std::getenv("OMP_NUM_THREADS")) {
    const int value = std::atoi(wanted);
    if (value > 0) threads = std::min(threads, value);
  }
  threads = std::min(threads, omp_get_thread_limit());
  return std::max(1, threads);
}

void check_threads(std::int64_t wanted) {
  require(wanted >= 0 && wanted <= kMostThreads, OptionName("threads"),
          "expected 0 (as many as there are) to {}, found {}", kMostThreads, wanted);
}

int checked_threads(std::int64_t wanted) {
  check_threads(wanted);
  return wanted == 0 ? available_threads() : static_cast<int>(wanted);
}

int free_threads() {
  if (is_single()) return 1;
  ThreadLimit::Team& team = this_thread().team;
  if (team.size == 0) return team_that_comes(omp_get_max_threads());
  if (!team.is_counted) team = {team_that_comes(team.size), true};
  return team.size;
}

void end_team() {
#ifndef KMP_VERSION_MAJOR
  ThreadState& state = this_thread();
  // Threads that a fork lost would be waited for.
  if (!state.had_team || state.lost_team || omp_in_parallel() != 0) return;
  if (omp_pause_resource(omp_pause_soft, omp_get_initial_device()) == 0) state.had_team = false;
#endif
}

double seconds_without_core() {
  const int threads = free_threads();
  std::atomic<std::int64_t> waited = 0;
  if (threads == 1) {
    waited = own_wait();
  } else {
    const ExactTeam team(threads);
#pragma omp parallel num_threads(threads)
    waited += own_wait();
  }
  return static_cast<double>(waited) * 1e-9;
}

int thread_number() { return this_thread().alone ? 0 : omp_get_thread_num(); }

ThreadLimit::ThreadLimit(int wanted) : outer_(this_thread().team) {
  check_own_stack();
  const bool is_promised = wanted <= 1 || (outer_.is_counted && wanted <= outer_.size);
  this_thread().team = {std::max(wanted, 1), is_promised};
}

ThreadLimit::~ThreadLimit() { this_thread().team = outer_; }

ExactTeam::ExactTeam(int threads)
    : threads_(omp_get_max_threads()),
      levels_(omp_get_max_active_levels()),
      dynamic_(omp_get_dynamic()) {
  require(threads == 1 || !omp_in_parallel(), OptionName("threads"),
          "expected 1 inside a parallel region, found {}", threads);
  if (threads_ != threads) omp_set_num_threads(threads);
  if (levels_ < 1) omp_set_max_active_levels(1);
  if (dynamic_ != 0) omp_set_dynamic(0);
}

ExactTeam::~ExactTeam() {
  if (dynamic_ != 0) omp_set_dynamic(dynamic_);
  if (levels_ < 1) omp_set_max_active_levels(levels_);
  if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
}

ParallelLoop::ParallelLoop(int wanted)
    : was_alone_(this_thread().alone), was_in_region_(this_thread().in_region) {
  ThreadState& state = this_thread();
  if (wanted <= 1 || is_single()) {
    threads_ = 1;
  } else {
    threads_ = state.team.size > 0 ? std::min(wanted, free_threads()) : team_that_comes(wanted);
  }
  state.alone = threads_ == 1;
  if (threads_ == 1) return;
  team_.emplace(threads_);
  state.had_team = true;
  asks_ = !std::exchange(state.in_region, true);
}

ParallelLoop::~ParallelLoop() {
  this_thread().alone = was_alone_;
  this_thread().in_region = was_in_region_;
}

void ParallelLoop::ask() {
  try {
    if (!ended_) Interruption::ask();
  } catch (...) {
    failure_ = std::current_exception();
    ended_ = true;
  }
}

bool Interruption::may_throw() { return !this_thread().in_region; }

}  // namespace longformer
