#include "stop_signals.h"

namespace longformer::cli {

namespace {

// A handler reaches nothing but what lives as long as the program.
volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) {
  received_signal = signal;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &interrupt_);
  ::sigaction(SIGTERM, &action, &terminate_);
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
}

int StopSignals::received() const { return received_signal; }

}  // namespace longformer::cli
