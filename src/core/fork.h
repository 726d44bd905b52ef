// Code that no fork cuts in two: it holds locks that the new process needs too.
#pragma once

#include <cstdint>
#include <mutex>

namespace longformer {

/// While it lives, a fork by another thread waits. Short, and no code of a caller runs in it: the
/// thread that forks may hold what that code waits for.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// A std::lock_guard whose mutex is free after every fork.
class ForkSafeLock {
 public:
  explicit ForkSafeLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  NoFork no_fork_;
  std::lock_guard<std::mutex> lock_;
};

/// How many forks lie between this process and the one that began to compute.
std::uint64_t fork_count();

}  // namespace longformer
