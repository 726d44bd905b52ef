#include "stop_signals.h"

#include <array>
#include <chrono>
#include <ctime>
#include <utility>

namespace longformer::cli {

namespace {

using Clock = std::chrono::steady_clock;

/// How long the waiting thread may outlive what it waits for.
constexpr long kPauseNanoseconds = 20'000'000;
constexpr std::chrono::seconds kSameSignal(1);

bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// A shell ignores SIGINT for what it runs in the background: a training stops by it all the same,
/// so that it can be told to.
sigset_t stopping_signals(bool heeds_ignored_interrupt) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : std::array{SIGINT, SIGTERM, SIGHUP}) {
    const bool heeded = heeds_ignored_interrupt && signal != SIGHUP;
    if (heeded || !is_ignored(signal)) sigaddset(&signals, signal);
  }
  return signals;
}

/// Ends the process as if the signal had never been caught.
void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t alone;
  sigemptyset(&alone);
  sigaddset(&alone, signal);
  pthread_sigmask(SIG_UNBLOCK, &alone, nullptr);
  std::raise(signal);
}

}  // namespace

StopSignals::StopSignals(std::function<void()> before_end)
    : before_end_(std::move(before_end)), signals_(stopping_signals(!before_end_)) {
  pthread_sigmask(SIG_BLOCK, &signals_, &former_mask_);
  waiter_ = std::thread([this] { wait(); });
}

StopSignals::~StopSignals() {
  ended_ = true;
  waiter_.join();
  pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

void StopSignals::end_if_received() const {
  if (const int signal = received_; signal != 0) end_by(signal);
}

void StopSignals::wait() {
  const timespec pause = {.tv_sec = 0, .tv_nsec = kPauseNanoseconds};
  Clock::time_point first;
  while (!ended_) {
    const int signal = sigtimedwait(&signals_, nullptr, &pause);
    if (signal <= 0) continue;
    if (before_end_) {
      before_end_();
      end_by(signal);
    }
    if (received_ == 0) {
      received_ = signal;
      first = Clock::now();
    } else if (Clock::now() - first > kSameSignal) {
      end_by(signal);
    }
  }
}

}  // namespace longformer::cli
