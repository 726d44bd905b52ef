// Short work on cores that other processes want too.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "core/threads.h"

namespace longformer {

/// Observations of other processes on the same cores; any thread.
class SharedCores {
 private:
  friend class ShortWork;
  using Clock = std::chrono::steady_clock;

  void add(double waited, double lasted);
  /// Whether work that begins now has one thread, and whether it is looked at.
  bool is_crowded(Clock::time_point now) const;
  bool wants_look(Clock::time_point now) const;

  mutable std::mutex mutex_;
  /// Seconds that the threads of teams waited for a core, of those that their work lasted.
  double waited_ = 0, lasted_ = 0;
  Clock::time_point next_look_ = {}, alone_until_ = {};
  std::chrono::milliseconds pause_{0};
};

/// While it lives, the thread computes something short. The threads of a team wait for each other
/// many times in it, and one that waits for a core stops all: two processes of two threads on two
/// cores take 255 ms for a text that takes 1.6 ms alone, and 2.7 ms with one thread each. So short
/// work has one thread while others want the cores.
class ShortWork {
 public:
  explicit ShortWork(SharedCores& cores);
  ~ShortWork();
  ShortWork(const ShortWork&) = delete;
  ShortWork& operator=(const ShortWork&) = delete;

 private:
  SharedCores& cores_;
  std::optional<ThreadLimit> limit_;
  /// Set when this work is looked at.
  std::optional<double> waited_before_;
  SharedCores::Clock::time_point begin_;
};

}  // namespace longformer
