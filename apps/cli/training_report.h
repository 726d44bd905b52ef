// Report of a training on stderr, and its result.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "longformer/report.h"
#include "longformer/training.h"
#include "messages.h"
#include "stop_signals.h"

namespace longformer::cli {

/// Callbacks for a training: the plan, a line of progress (on a terminal one that is written over,
/// elsewhere one for each line of the log), evaluations, notes, and stopping by Ctrl-C, SIGTERM
/// or SIGHUP.
class TrainingReport {
 public:
  /// How the line of progress says the loss: as it is, or in bits per character.
  enum class Loss { nats, bits };

  explicit TrainingReport(Messages& messages, Loss loss = Loss::nats);
  ~TrainingReport();
  TrainingReport(const TrainingReport&) = delete;
  TrainingReport& operator=(const TrainingReport&) = delete;

  /// They may be used as long as this lives.
  TrainingCallbacks callbacks();
  /// Tells where an interrupted training can go on, makes its signal the exit code, and prints the
  /// result: one line of JSON, or text for a person.
  void finish(const TrainingResult& result, const std::string& output_dir, bool json);
  /// The table of epochs of a training that has ended, on stderr.
  void show_epochs(const TrainingResult& result);
  /// Tells of an interruption, and makes its signal the exit code.
  void interrupted(const std::string& where);

 private:
  void plan(const TrainingPlan& plan);
  void progress(const TrainingProgress& progress);
  bool stop();
  void end_line();

  using Clock = std::chrono::steady_clock;
  Messages& messages_;
  Loss loss_;
  StopSignals signals_;
  Clock::time_point shown_ = {};
  bool on_terminal_;
  bool visible_ = false;
  bool told_ = false;
  /// Before a step there is nothing to write a checkpoint of: a signal ends what waits for data.
  std::optional<Interruption> preparation_;
};

}  // namespace longformer::cli
