// Messages of the program on stderr: one line per error or note. Results never go there.
#pragma once

#include <string>
#include <string_view>

namespace longformer::cli {

/// Exit codes of the program; 128 + N when signal N ended the work.
enum ExitCode { kSuccess = 0, kFailure = 1, kUsage = 2, kSignal = 128 };

/// Reports errors while the work goes on, and remembers that there were some.
class Messages {
 public:
  /// A quiet one keeps notes to itself; so do those who show progress.
  explicit Messages(bool quiet = false) : quiet_(quiet) {}

  bool is_quiet() const { return quiet_; }
  /// One line `longformer: error: …`; line breaks inside become spaces.
  void error(std::string_view message);
  /// One line `longformer: note: …`, unless quiet.
  void note(std::string_view message);
  /// Something failed, and the reason has been told elsewhere.
  void failed(ExitCode code = kFailure) { failure_ = code; }
  /// A signal has ended the work before its end, and everything is in order.
  void interrupted(int signal) { signal_ = signal; }
  /// kFailure when an error was reported.
  int exit_code() const {
    if (failure_ != kSuccess) return failure_;
    return signal_ != 0 ? kSignal + signal_ : kSuccess;
  }

 private:
  bool quiet_;
  ExitCode failure_ = kSuccess;
  int signal_ = 0;
};

/// A message of a length that people read: of more than 1,200 bytes, as one that shows what was
/// found may have, the beginning and the end.
std::string shortened(std::string message);

/// The line that ends a run: `longformer: error: …`.
void print_error(std::string_view message);

}  // namespace longformer::cli
