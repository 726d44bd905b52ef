// Ctrl-C, SIGTERM and SIGHUP as a question that a training asks between its steps, or as an end
// that leaves nothing half-written.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace longformer::cli {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP is remembered. Another one ends the process,
/// but for those of the first second, which are the same one: `timeout` sends its signal to the
/// process and to its group. A SIGHUP that is ignored, as nohup has it, stays so. Make it before
/// anything computes: the signals are blocked in this thread and those that it starts, and a thread
/// of its own waits for them. A handler would run on the stack of a thread that computes, and while
/// oneDNN multiplies, its stack pointer may be inside a buffer on the heap: the frame of the
/// handler then overwrites what lies below (glibc: "corrupted size vs. prev_size").
class StopSignals {
 public:
  StopSignals() : StopSignals(std::function<void()>()) {}
  /// The first signal ends the process after a call of `before_end`. Ignored signals stay ignored.
  explicit StopSignals(std::function<void()> before_end);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0.
  int received() const { return received_; }
  /// Ends the process by the signal that came, if one did.
  void end_if_received() const;

 private:
  void wait();

  std::function<void()> before_end_;
  sigset_t signals_;
  std::atomic<int> received_ = 0;
  std::atomic<bool> ended_ = false;
  sigset_t former_mask_;
  std::thread waiter_;
};

}  // namespace longformer::cli
