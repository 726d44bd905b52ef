// Long calls without the GIL, which signals such as Ctrl-C end.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "bindings.h"
#include "longformer/report.h"

namespace longformer {

/// Ends a call: a Python exception is set.
class Interrupted {};

/// While it lives, signals wait, for this thread and those that it starts: a handler must not run
/// on the stack of a thread that computes, whose stack pointer may be inside a buffer on the heap
/// while oneDNN multiplies.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Lets the handlers of those that came run.
  void let_in() const;

 private:
  sigset_t held_, former_;
};

/// Whether this is the thread whose Python runs the handlers of signals.
bool on_main_thread();

/// Runs Python's handlers of signals that came. Throws Interrupted when one of them raised.
void check_signals();

/// Calls `work` without the GIL. In the main thread `check` is asked now and then, and what it
/// throws ends the work.
template <typename Work>
auto without_gil(Work&& work, const std::function<void()>& check = check_signals) {
  const bool is_main = on_main_thread();
  try {
    const nb::gil_scoped_release release;
    const HeldSignals held;
    std::optional<Interruption> interruption;
    if (is_main) {
      interruption.emplace([&held, &check] {
        held.let_in();
        check();
      });
    }
    return work();
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

/// Like without_gil, for objects that take one call at a time: threads take turns.
template <typename Work>
auto in_turn(std::timed_mutex& mutex, Work&& work) {
  return without_gil([&] {
    std::unique_lock lock(mutex, std::defer_lock);
    while (!lock.try_lock_for(std::chrono::milliseconds(100))) Interruption::poll();
    return work();
  });
}

/// Calls a Python function from within such a call. Throws Interrupted when it raises.
template <typename... Arguments>
void call_python(const nb::object& function, Arguments&&... arguments) {
  const nb::gil_scoped_acquire acquire;
  try {
    function(std::forward<Arguments>(arguments)...);
  } catch (nb::python_error& error) {
    error.restore();
    throw Interrupted();
  }
}

}  // namespace longformer
