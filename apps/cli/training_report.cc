#include "training_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "control_characters.h"
#include "output.h"
#include "progress.h"

namespace longformer::cli {

namespace {

constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();

std::string line_of(const TrainingProgress& progress, TrainingReport::Loss loss,
                    std::size_t columns) {
  std::string step = fmt::format("step {}/{}", grouped(progress.step), grouped(progress.steps));
  if (!progress.phase.empty()) step += fmt::format(" ({})", progress.phase);
  std::vector<ProgressPart> parts = {{step, 7}};
  if (progress.epoch) parts.push_back({fmt::format("epoch {:.2f}", *progress.epoch), 4});
  parts.push_back({loss == TrainingReport::Loss::bits
                       ? fmt::format("BPC {:.4f}", progress.loss / std::numbers::ln2)
                       : fmt::format("loss {:.4f}", progress.loss),
                   6});
  parts.push_back({fmt::format("learning rate {:.3g}", progress.learning_rate), 2});
  parts.push_back({fmt::format("{} tokens/s", grouped(static_cast<std::int64_t>(
                                                  progress.tokens_per_second + 0.5))),
                   3});
  if (progress.fraction_of_bound > 0) {
    parts.push_back({fmt::format("{} of the bound", bound_text(progress.fraction_of_bound)), 1});
  }
  parts.push_back({fmt::format("{} left", duration(progress.seconds_left)), 5});
  return joined(std::move(parts), columns);
}

/// The training continues if nobody reads any more, for example after the terminal was closed.
void print_line(const std::string& line) {
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  std::fputs(((is_terminal ? with_visible_controls(line) : line) + "\n").c_str(), stderr);
  std::fflush(stderr);
}

std::string bytes_of(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

/// Names of the metrics that have a column, few enough for a terminal; the loss comes first.
std::vector<std::string> columns_of(const std::vector<TrainingEpoch>& epochs) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> names;
  for (const TrainingEpoch& row : epochs) {
    for (const auto& [name, value] : row.metrics) {
      const bool is_new = std::ranges::find(names, name) == names.end();
      if (is_new && names.size() < kMost) names.push_back(name);
    }
  }
  return names;
}

/// The table of epochs: loss of the training, loss and metrics of the validation, seconds.
std::string table_of(const std::vector<TrainingEpoch>& epochs) {
  constexpr std::size_t kMostRows = 100;
  const std::vector<std::string> columns = columns_of(epochs);
  std::string text = fmt::format("{:>7} {:>8} {:>10}", "epoch", "step", "loss");
  std::vector<std::size_t> widths;
  for (const std::string& name : columns) {
    const std::string shown = name == "loss" ? "validation loss" : name;
    widths.push_back(std::max<std::size_t>(10, shown.size()));
    text += fmt::format(" {:>{}}", shown, widths.back());
  }
  text += fmt::format(" {:>9}", "seconds");
  const std::size_t first = epochs.size() > kMostRows ? epochs.size() - kMostRows : 0;
  if (first > 0) text += fmt::format("\n… {} rows before", first);
  for (std::size_t i = first; i < epochs.size(); ++i) {
    const TrainingEpoch& row = epochs[i];
    text += fmt::format("\n{:>7} {:>8} {:>10.4f}",
                        row.epoch ? fmt::format("{:.2f}", *row.epoch) : "–", row.step, row.loss);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto found =
          std::ranges::find(row.metrics, columns[c], &std::pair<std::string, double>::first);
      const std::string value =
          found == row.metrics.end() ? "" : fmt::format("{:.4f}", found->second);
      text += fmt::format(" {:>{}}", value, widths[c]);
    }
    text += fmt::format(" {:>9.1f}", row.seconds);
  }
  return text;
}

/// "; best accuracy 0.9123 after step 80 (out/checkpoint-80)", or nothing.
std::string best_of(const TrainingResult& result) {
  if (!result.best_metric) return {};
  std::string text = fmt::format("; best {} {:.4f} after step {}", result.metric,
                                 *result.best_metric, grouped(result.best_step));
  if (!result.best_checkpoint.empty()) text += fmt::format(" ({})", result.best_checkpoint);
  return text;
}

/// Rows of the table of epochs as JSON.
std::vector<JsonLine> lines_of(const std::vector<TrainingEpoch>& epochs) {
  std::vector<JsonLine> lines;
  for (const TrainingEpoch& row : epochs) {
    JsonLine& line = lines.emplace_back();
    line.add("step", row.step);
    if (row.epoch) line.add("epoch", *row.epoch);
    line.add("loss", row.loss).add("seconds", row.seconds);
    for (const auto& [name, value] : row.metrics) line.add("eval_" + name, value);
  }
  return lines;
}

/// The result as one line of JSON, or as text for a person.
std::string result_text(const TrainingResult& result, const std::string& output_dir, bool json) {
  if (json) {
    JsonLine line;
    line.add("output_dir", output_dir).add("steps", result.steps);
    if (result.loss) {
      line.add("loss", *result.loss);
    } else {
      line.add_null("loss");
    }
    line.add("interrupted", result.interrupted).add("stopped_early", result.stopped_early);
    if (result.best_metric) {
      line.add("best_metric", *result.best_metric);
    } else {
      line.add_null("best_metric");
    }
    line.add("metric", result.metric).add("best_step", result.best_step);
    line.add("model_step", result.model_step);
    line.add("last_checkpoint", result.last_checkpoint);
    line.add("best_checkpoint", result.best_checkpoint);
    line.add_objects("epochs", lines_of(result.epochs));
    return line.line();
  }
  if (result.interrupted) {
    return fmt::format("{}, loss {:.4f}; the last checkpoint is {}\n",
                       counted(result.steps, "step"), result.loss.value_or(0),
                       result.last_checkpoint);
  }
  if (!result.loss) {
    return fmt::format("nothing was left to do after {}; the model is in {}\n",
                       counted(result.steps, "step"), output_dir);
  }
  const std::string of = result.best_metric && result.model_step != result.steps
                             ? fmt::format(" of step {}", grouped(result.model_step))
                             : "";
  return fmt::format("{}{}, loss {:.4f}{}; the model{} is in {}\n", counted(result.steps, "step"),
                     result.stopped_early ? ", stopped early" : "", *result.loss, best_of(result),
                     of, output_dir);
}

}  // namespace

TrainingReport::TrainingReport(Messages& messages, Loss loss)
    : messages_(messages),
      loss_(loss),
      on_terminal_(isatty(STDERR_FILENO) == 1),
      preparation_(std::in_place, [this] { signals_.end_if_received(); }) {}

TrainingReport::~TrainingReport() { end_line(); }

TrainingCallbacks TrainingReport::callbacks() {
  return {.plan = [this](const TrainingPlan& value) { plan(value); },
          .progress = [this](const TrainingProgress& value) { progress(value); },
          .note =
              [this](const std::string& text) {
                end_line();
                messages_.note(text);
              },
          .stop = [this] { return stop(); }};
}

void TrainingReport::plan(const TrainingPlan& plan) {
  preparation_.reset();
  if (messages_.is_quiet()) return;
  std::string text = counted(plan.trained_parameters, "trained parameter");
  if (plan.frozen_parameters > 0) {
    text += fmt::format(", {} frozen", grouped(plan.frozen_parameters));
  }
  // A checkpoint may lie behind the last step that is asked for.
  const bool is_done = plan.steps_done > 0 && plan.steps_done >= plan.steps;
  text += is_done ? "; no steps left" : "; " + counted(plan.steps - plan.steps_done, "step");
  if (plan.steps_done > 0) text += fmt::format(" after {}", grouped(plan.steps_done));
  if (plan.tokens_per_step > 0) text += " of " + counted(plan.tokens_per_step, "token");
  text += fmt::format(
      "\nmemory about {}: weights {}, gradients {}, optimizer {}, activations {}, "
      "data and program {}",
      bytes_of(plan.peak_bytes), bytes_of(plan.weight_bytes), bytes_of(plan.gradient_bytes),
      bytes_of(plan.optimizer_bytes), bytes_of(plan.activation_bytes), bytes_of(plan.data_bytes));
  text += fmt::format("; disk about {}", bytes_of(plan.disk_bytes));
  if (plan.free_disk_bytes) text += fmt::format(" of {} free", bytes_of(*plan.free_disk_bytes));
  if (plan.seconds > 0) text += fmt::format("; time about {}", duration(plan.seconds));
  print_line(text);
}

void TrainingReport::progress(const TrainingProgress& progress) {
  if (messages_.is_quiet()) return;
  const auto now = Clock::now();
  const double since_shown = std::chrono::duration<double>(now - shown_).count();
  if (on_terminal_) {
    if (since_shown >= kSecondsBetweenUpdates || progress.step == progress.steps) {
      show_line(line_of(progress, loss_, terminal_columns() - 1));
      shown_ = now;
      visible_ = true;
    }
  } else if (progress.logged) {
    print_line(line_of(progress, loss_, kAnyWidth));
  }
  if (!progress.metrics.empty()) {
    end_line();
    std::string text;
    for (const auto& [name, value] : progress.metrics) {
      text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", name, value);
    }
    print_line(fmt::format("evaluation after step {}: {}", grouped(progress.step), text));
  }
}

bool TrainingReport::stop() {
  const bool stops = signals_.received() != 0;
  if (stops && !told_) {
    end_line();
    messages_.note("stopping: a checkpoint is written; once more ends at once");
    told_ = true;
  }
  return stops;
}

void TrainingReport::end_line() {
  if (visible_) std::fputs("\n", stderr);
  visible_ = false;
}

void TrainingReport::interrupted(const std::string& where) {
  end_line();
  messages_.note(fmt::format("stopped {}; go on with --resume-from-checkpoint last", where));
  messages_.interrupted(signals_.received());
}

void TrainingReport::show_epochs(const TrainingResult& result) {
  end_line();
  const bool is_told = !messages_.is_quiet() && !result.interrupted && result.loss.has_value();
  if (is_told && !result.epochs.empty()) print_line(table_of(result.epochs));
}

void TrainingReport::finish(const TrainingResult& result, const std::string& output_dir,
                            bool json) {
  show_epochs(result);
  if (result.interrupted) interrupted(fmt::format("after step {}", grouped(result.steps)));
  Output output;
  output.write(result_text(result, output_dir, json));
  output.finish();
}

}  // namespace longformer::cli
