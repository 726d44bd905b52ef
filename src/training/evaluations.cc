#include "training/evaluations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/json.h"

namespace longformer::training {
namespace {

bool is_smaller_better(const std::string& metric) {
  constexpr std::array<std::string_view, 5> kErrors = {"loss", "perplexity", "bpc", "mse", "mae"};
  return std::ranges::find(kErrors, metric) != kErrors.end();
}

}  // namespace

std::string plain_metric(const std::string& metric) {
  return metric.starts_with("eval_") ? metric.substr(5) : metric;
}

bool is_better(const TrainingOptions& options, double metric, double best, double threshold) {
  const bool greater = options.greater_is_better.value_or(
      !is_smaller_better(plain_metric(options.metric_for_best_model)));
  return (greater ? metric - best : best - metric) > threshold;
}

bool count_evaluation(const TrainingOptions& options, double metric, TrainerState& state) {
  const auto stops = [&] {
    return options.early_stopping_patience > 0 &&
           state.evaluations_without_gain >= options.early_stopping_patience;
  };
  // A correlation of equal numbers, for example, is none.
  if (!std::isfinite(metric)) {
    ++state.evaluations_without_gain;
    return stops();
  }
  const bool first = !state.best_metric;
  const bool gains =
      first || is_better(options, metric, *state.best_metric, options.early_stopping_threshold);
  state.evaluations_without_gain = gains ? 0 : state.evaluations_without_gain + 1;
  if (first || is_better(options, metric, *state.best_metric, 0)) {
    state.best_metric = metric;
    state.best_step = state.step;
  }
  return stops();
}

void add_step(double loss, double seconds, TrainerState& state) {
  state.open_epoch.loss += loss;
  state.open_epoch.seconds += seconds;
  ++state.open_epoch_steps;
}

void close_epoch(std::optional<double> epoch, double evaluation_seconds,
                 const std::vector<std::pair<std::string, double>>& metrics, TrainerState& state) {
  if (state.open_epoch_steps == 0) return;
  TrainingEpoch row = std::exchange(state.open_epoch, {});
  row.loss /= static_cast<double>(std::exchange(state.open_epoch_steps, 0));
  row.step = state.step;
  row.epoch = epoch;
  row.seconds += evaluation_seconds;
  row.metrics = metrics;
  state.epochs.push_back(std::move(row));
}

std::vector<EvaluationPoint> evaluations_of(const std::vector<nlohmann::ordered_json>& log) {
  constexpr std::string_view kPrefix = "eval_";
  std::vector<EvaluationPoint> points;
  for (const nlohmann::ordered_json& line : log) {
    EvaluationPoint point = {.step = line.value("step", std::int64_t{0})};
    for (const auto& [name, value] : line.items()) {
      if (!name.starts_with(kPrefix) || !value.is_number()) continue;
      point.metrics.emplace_back(name.substr(kPrefix.size()), value.get<double>());
    }
    if (!point.metrics.empty()) points.push_back(std::move(point));
  }
  return points;
}

void report_evaluations(const TrainingOptions& options, const TrainerState& state,
                        TrainingResult& result) {
  result.evaluations = evaluations_of(state.log_history);
  result.epochs = state.epochs;
  result.best_metric = state.best_metric;
  result.best_step = state.best_step;
  result.metric = state.best_metric ? plain_metric(options.metric_for_best_model) : "";
  const bool is_best = options.load_best_model_at_end && state.best_step > 0;
  result.model_step = is_best ? state.best_step : state.step;
  for (const TrainingEpoch& row : state.epochs) {
    if (row.step == result.model_step && !row.metrics.empty()) result.metrics = row.metrics;
  }
}

nlohmann::ordered_json to_json(const std::vector<TrainingEpoch>& epochs) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const TrainingEpoch& one : epochs) {
    nlohmann::ordered_json row = {{"step", one.step}, {"loss", one.loss}, {"seconds", one.seconds}};
    if (one.epoch) row["epoch"] = *one.epoch;
    row["metrics"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : one.metrics) row["metrics"][name] = value;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<TrainingEpoch> epochs_from_json(const nlohmann::ordered_json& rows,
                                            const std::string& file) {
  require(rows.is_array(), "{}: epochs: expected a list, found {}", file, formats::shown(rows));
  std::vector<TrainingEpoch> epochs;
  for (const auto& row : rows) {
    require(row.is_object(), "{}: epochs: expected objects, found {}", file, formats::shown(row));
    const auto number = [&](const char* key) {
      const auto found = row.find(key);
      require(found != row.end() && found->is_number(),
              "{}: epochs: expected a number in the member \"{}\", found none", file, key);
      return found->get<double>();
    };
    TrainingEpoch one = {.step = static_cast<std::int64_t>(number("step")),
                         .loss = number("loss"),
                         .seconds = number("seconds")};
    if (row.contains("epoch")) one.epoch = number("epoch");
    if (const auto metrics = row.find("metrics"); metrics != row.end() && metrics->is_object()) {
      for (const auto& [name, value] : metrics->items()) {
        // JSON has null in place of NaN.
        constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
        one.metrics.emplace_back(name, value.is_number() ? value.get<double>() : kNone);
      }
    }
    epochs.push_back(std::move(one));
  }
  return epochs;
}

}  // namespace longformer::training
