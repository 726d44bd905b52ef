// Ctrl-C and SIGTERM as a question that a training asks between its steps.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace longformer::cli {

/// While it lives, the first SIGINT or SIGTERM is remembered and the second one ends the process.
/// Make it before anything computes: the signals are blocked in this thread and those that it
/// starts, and a thread of its own waits for them. A handler would run on the stack of a thread
/// that computes, and while oneDNN multiplies, its stack pointer may be inside a buffer on the
/// heap: the frame of the handler then overwrites what lies below (glibc: "corrupted size vs.
/// prev_size").
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0.
  int received() const { return received_; }

 private:
  void wait();

  std::atomic<int> received_ = 0;
  std::atomic<bool> ended_ = false;
  sigset_t former_mask_;
  std::thread waiter_;
};

}  // namespace longformer::cli
