// How well a model in training does on a validation set.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/frame/task.h"
#include "engine/training/trained_model.h"
#include "longformer/embedding.h"
#include "longformer/finetuning.h"
#include "longformer/generation.h"

namespace longformer {

/// The examples are rows already, and each evaluation runs them once: loss and metrics are of one
/// pass. Texts that a model writes need a second one, as the loss is that of the right text's
/// tokens and a written text follows its own.
class Validation {
 public:
  /// All of it must outlive the validation.
  struct Setup {
    const FinetuneOptions& options;
    const std::string& folder;
    const engine::DataSet& data;
    /// Rows of the data, with their readings where has_metrics().
    const engine::TrainingSet& rows;
    const TrainedModel& model;
    const Tokenizer& tokenizer;
    /// Longest text that a vector is made of; see EvaluateOptions.
    Index max_text_tokens = 0;
    std::function<void(const std::string&)> note = {};
  };
  explicit Validation(Setup setup) : setup_(std::move(setup)) {}

  /// Whether there is more than the loss.
  static bool has_metrics(const FinetuneOptions& options, const models::EncoderConfig& config,
                          const engine::DataSet& data);
  /// Those of run() for such data.
  static std::vector<std::string> metric_names(const FinetuneOptions& options,
                                               const models::EncoderConfig& config,
                                               const engine::DataSet& data);

  /// The loss and the metrics of the model as it is now. Throws Error.
  training::Metrics run();

 private:
  EvaluateOptions options();

  Setup setup_;
  /// Interface of a model that writes texts, and of one that makes vectors.
  std::optional<TextGenerator> generator_;
  std::optional<Embedder> embedder_;
};

}  // namespace longformer
