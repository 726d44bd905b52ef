// A lock that is given in the order in which it was asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "core/shared_cores.h"
#include "core/threads.h"

namespace longformer {

/// Whoever gives it back and asks again goes behind all who wait, unlike with std::mutex.
class Turns {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = last_++;
    changed_.wait(lock, [&] { return now_ == mine; });
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    ++now_;
    changed_.notify_all();
  }

  /// Belongs to whom it is given to.
  SharedCores& cores() { return cores_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t now_ = 0, last_ = 0;
  SharedCores cores_;
};

/// While it lives, its thread alone computes, on no more threads than it may use.
class Turn {
 public:
  Turn(Turns& turns, int threads) : lock_(turns), limit_(threads) {}

  /// Says what is computed in this turn. Few tokens leave cores to processes that want them.
  void computes(std::int64_t tokens) {
    if (tokens <= kFewTokens && !work_) work_.emplace(lock_.mutex()->cores());
  }

  /// Lets those who wait go first, and calls `meanwhile` in their time.
  template <typename Meanwhile>
  void pass(Meanwhile&& meanwhile) {
    lock_.unlock();
    meanwhile();
    lock_.lock();
  }

 private:
  /// Longer work is fast on cores that others want too: its threads seldom wait for each other.
  static constexpr std::int64_t kFewTokens = 512;

  std::unique_lock<Turns> lock_;
  ThreadLimit limit_;
  std::optional<ShortWork> work_;
};

}  // namespace longformer
