#include "core/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

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

/// What the OpenMP runtime keeps of a thread, as far as a fork spoils it.
struct Teams {
  bool any = false;
  bool lost = false;
};

Teams& teams_of_this_thread() {
  thread_local Teams teams;
  return teams;
}

/// Runs in the new process, on the thread that forked: the only one that is left.
void after_fork() {
  Teams& teams = teams_of_this_thread();
  teams.lost = teams.any;
}

}  // namespace

void LoopInterruption::ask() {
  try {
    if (!ended_) Interruption::ask();
  } catch (...) {
    failure_ = std::current_exception();
    ended_ = true;
  }
}

int available_threads() {
  int threads = affinity_threads();
  if (const int quota = cgroup_threads(); quota > 0) threads = std::min(threads, quota);
  if (const char* wanted = std::getenv("OMP_NUM_THREADS")) {
    const int value = std::atoi(wanted);
    if (value > 0) threads = std::min(threads, value);
  }
  return std::max(1, threads);
}

int checked_threads(std::int64_t wanted) {
  require(wanted >= 0 && wanted <= kMostThreads,
          "threads: expected 0 (as many as there are) to {}, found {}", kMostThreads, wanted);
  return wanted == 0 ? available_threads() : static_cast<int>(wanted);
}

int team_size(int wanted) {
  if (wanted <= 1) return wanted;
  static const int registered = pthread_atfork(nullptr, nullptr, after_fork);
  static_cast<void>(registered);
  Teams& teams = teams_of_this_thread();
  if (teams.lost) return 1;
  teams.any = true;
  return wanted;
}

}  // namespace longformer
