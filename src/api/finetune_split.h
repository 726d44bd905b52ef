// The part of the data that a training for a task learns, the part that it evaluates on, and the
// weights of the classes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/frame/task.h"
#include "longformer/finetuning.h"

namespace longformer {

/// Throws Error for options of a split that contradict each other, or others.
void check_split(const FinetuneOptions& options);

/// The part that is evaluated on, taken out of the data, and facts about it.
struct DataSplit {
  /// Null where the data are not split.
  std::unique_ptr<engine::DataSet> validation = nullptr;
  /// {"seed", "validation_split" or "folds" and "fold", "training", "validation", "labels"}:
  /// numbers of examples, in all and of each class; empty where the data are not split.
  engine::Json facts = engine::Json::object();
  /// A note for the user; empty for none.
  std::string note = {};
  /// The text of validation_split.json: `facts`, and line and id of each example that is evaluated
  /// on.
  std::string file = {};
};
inline constexpr const char* kSplitFile = "validation_split.json";

/// Throws Error for a folder that holds the trainings of folds, into which another one shall not be
/// written.
void check_no_folds(const FinetuneOptions& options);

/// Throws Error for data that cannot be split so.
DataSplit split_data(const FinetuneOptions& options, engine::DataSet& data);

/// The weights of the classes of the data; none where the options ask for none. Throws Error.
engine::ClassWeights weights_of_classes(const FinetuneOptions& options,
                                        const engine::DataSet& data);
/// {label: weight}, of several labels for each example {label: [weight, weight without it]}.
engine::Json to_json(const engine::ClassWeights& weights, const std::vector<std::string>& labels);

}  // namespace longformer
