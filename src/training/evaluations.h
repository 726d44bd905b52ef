// Conclusions from the evaluations of a training: the best one, when to stop, and the table of
// epochs at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longformer/training.h"
#include "training/checkpoints.h"

namespace longformer::training {

/// The name of a metric without "eval_".
std::string plain_metric(const std::string& metric);

/// Whether an evaluation is better than another by more than the threshold.
bool is_better(const TrainingOptions& options, double metric, double best, double threshold);

/// Counts an evaluation after the step of the state. Returns whether the training stops early: its
/// patience is over.
bool count_evaluation(const TrainingOptions& options, double metric, TrainerState& state);

/// Adds a step to the row of the table of epochs that is open.
void add_step(double loss, double seconds, TrainerState& state);
/// Closes the row. `metrics` are those of an evaluation at its end; none: there was none.
void close_epoch(std::optional<double> epoch, double evaluation_seconds,
                 const std::vector<std::pair<std::string, double>>& metrics, TrainerState& state);

/// The evaluations of a log, without the prefix of their names.
std::vector<EvaluationPoint> evaluations_of(const std::vector<nlohmann::ordered_json>& log);

/// Fills in the evaluations, the table of epochs, the best evaluation, and the metrics of the model
/// that is written at the end.
void report_evaluations(const TrainingOptions& options, const TrainerState& state,
                        TrainingResult& result);

/// The rows of the table of epochs in trainer_state.json.
nlohmann::ordered_json to_json(const std::vector<TrainingEpoch>& epochs);
std::vector<TrainingEpoch> epochs_from_json(const nlohmann::ordered_json& rows,
                                            const std::string& file);

}  // namespace longformer::training
