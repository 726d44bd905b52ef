// A lock that is given in the order in which it was asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

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

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t now_ = 0, last_ = 0;
};

/// While it lives, its thread alone computes, on no more threads than it may use.
class Turn {
 public:
  Turn(Turns& turns, int threads) : lock_(turns), limit_(threads) {}

  /// Lets those who wait go first, and calls `meanwhile` in their time.
  template <typename Meanwhile>
  void pass(Meanwhile&& meanwhile) {
    lock_.unlock();
    meanwhile();
    lock_.lock();
  }

 private:
  std::unique_lock<Turns> lock_;
  ThreadLimit limit_;
};

}  // namespace longformer
