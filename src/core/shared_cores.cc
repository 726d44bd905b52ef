#include "core/shared_cores.h"

#include <algorithm>

#include "core/fork.h"

namespace longformer {
namespace {

using std::chrono::milliseconds;

/// Looking costs about 20 µs, so it is not done more often.
constexpr milliseconds kBetweenLooks(5);
/// Shorter work says too little: a thread may wait for a moment without anyone to blame.
constexpr double kEnoughSeconds = 0.02;
/// Threads that wait longer than this share of their work are crowded. Two processes of two threads
/// on two cores wait 0.3 to 0.5 of it, threads that nobody disturbs less than 0.05.
constexpr double kCrowded = 0.2;
/// How long work has one thread before a team is tried again: longer each time that it fails.
constexpr milliseconds kFirstPause(200), kLongestPause(10000);

}  // namespace

bool SharedCores::is_crowded(Clock::time_point now) const {
  const ForkSafeLock lock(mutex_);
  return now < alone_until_;
}

bool SharedCores::wants_look(Clock::time_point now) const {
  const ForkSafeLock lock(mutex_);
  return now >= next_look_;
}

void SharedCores::add(double waited, double lasted) {
  const ForkSafeLock lock(mutex_);
  next_look_ = Clock::now() + kBetweenLooks;
  waited_ += waited;
  lasted_ += lasted;
  if (lasted_ < kEnoughSeconds) return;
  if (waited_ > kCrowded * lasted_) {
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    alone_until_ = Clock::now() + pause_;
  } else {
    pause_ = milliseconds(0);
  }
  waited_ = lasted_ = 0;
}

ShortWork::ShortWork(SharedCores& cores) : cores_(cores), begin_(SharedCores::Clock::now()) {
  if (cores.is_crowded(begin_)) {
    limit_.emplace(1);
  } else if (cores.wants_look(begin_) && free_threads() > 1) {
    waited_before_ = seconds_without_core();
  }
}

ShortWork::~ShortWork() {
  if (!waited_before_) return;
  const auto now = SharedCores::Clock::now();
  const double waited = seconds_without_core() - *waited_before_;
  cores_.add(std::max(waited, 0.0) / free_threads(),
             std::chrono::duration<double>(now - begin_).count());
}

}  // namespace longformer
