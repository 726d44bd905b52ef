// Ending long work from outside: a signal, a button, a time that is over.
#pragma once

#include <chrono>
#include <functional>

namespace longformer {

/// While it lives, what its thread does in the library asks `check` about ten times a second, on
/// that thread and between two parts of the work. What check throws ends the work and comes out of
/// the call. Models and all other objects stay usable; a training that is ended so has no more than
/// the checkpoints that it had written. An interruption within another one replaces it for its
/// time.
class Interruption {
 public:
  explicit Interruption(std::function<void()> check);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Asks the check of this thread, if it has one whose time has come.
  static void poll();

 private:
  friend class ParallelLoop;
  /// Where no exception may leave, the caller of ask() keeps it.
  static void ask();
  /// Whether this thread is outside the parallel loops of the library.
  static bool may_throw();

  std::function<void()> check_;
  Interruption* outer_;
  std::chrono::steady_clock::time_point due_;
};

}  // namespace longformer
