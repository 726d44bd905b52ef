#include "stop_signals.h"

#include <ctime>

namespace longformer::cli {

namespace {

/// How long the waiting thread may outlive what it waits for.
constexpr long kPauseNanoseconds = 20'000'000;

sigset_t stopping_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
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

StopSignals::StopSignals() {
  const sigset_t signals = stopping_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &former_mask_);
  waiter_ = std::thread([this] { wait(); });
}

StopSignals::~StopSignals() {
  ended_ = true;
  waiter_.join();
  pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

void StopSignals::wait() {
  const sigset_t signals = stopping_signals();
  const timespec pause = {.tv_sec = 0, .tv_nsec = kPauseNanoseconds};
  while (!ended_) {
    const int signal = sigtimedwait(&signals, nullptr, &pause);
    if (signal <= 0) continue;
    if (received_ != 0) end_by(signal);
    received_ = signal;
  }
}

}  // namespace longformer::cli
