// Ctrl-C and SIGTERM as a question that long work asks itself.
#pragma once

#include <csignal>

namespace longformer::cli {

/// While it lives, the first SIGINT or SIGTERM is only remembered; a second one ends the program at
/// once, as without it. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came; 0 while none has.
  int received() const;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

}  // namespace longformer::cli
