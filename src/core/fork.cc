#include "core/fork.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace longformer {
namespace {

/// All forks of the process, so there is one for all of it.
struct ForkGate {
  std::atomic<int> inside = 0;
  std::atomic<bool> closed = false;
  std::atomic<std::uint64_t> forks = 0;
};

ForkGate& gate() {
  static ForkGate gate;
  return gate;
}

/// NoForks of this thread.
int& depth() {
  thread_local int depth = 0;
  return depth;
}

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

void before_fork() {
  while (gate().closed.exchange(true)) pause();
  const int own = depth() > 0 ? 1 : 0;
  while (gate().inside > own) pause();
}

void after_fork_in_parent() { gate().closed = false; }

void after_fork_in_child() {
  ++gate().forks;
  gate().inside = depth() > 0 ? 1 : 0;
  gate().closed = false;
}

}  // namespace

NoFork::NoFork() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (depth()++ > 0) return;
  while (true) {
    ++gate().inside;
    if (!gate().closed) return;
    --gate().inside;
    while (gate().closed) pause();
  }
}

NoFork::~NoFork() {
  if (--depth() == 0) --gate().inside;
}

std::uint64_t fork_count() { return gate().forks; }

}  // namespace longformer
