// What the program says on stderr: one line per error or note. Results never go there.
#pragma once

#include <string>
#include <string_view>

namespace longformer::cli {

/// Exit codes of the program; 128 + N when signal N ended the work.
enum ExitCode { kSuccess = 0, kFailure = 1, kUsage = 2, kSignal = 128 };

/// Reports errors while the work goes on, and remembers that there were some.
class Messages {
 public:
  /// One line `longformer: error: …`; line breaks inside become spaces.
  void error(std::string_view message);
  /// One line `longformer: note: …`.
  void note(std::string_view message);
  /// Something failed, and the reason has been told elsewhere.
  void failed() { failed_ = true; }
  /// A signal has ended the work before its end, and everything is in order.
  void interrupted(int signal) { signal_ = signal; }
  /// kFailure when an error was reported.
  int exit_code() const {
    if (failed_) return kFailure;
    return signal_ != 0 ? kSignal + signal_ : kSuccess;
  }

 private:
  bool failed_ = false;
  int signal_ = 0;
};

/// The line that ends a run: `longformer: error: …`.
void print_error(std::string_view message);

}  // namespace longformer::cli
