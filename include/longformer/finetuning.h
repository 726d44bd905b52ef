// Fine-tuning for a task, and further pretraining as a masked LM.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longformer/evaluation.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/training.h"

namespace longformer {

// Fine-tuning a folder for a task (Longformer paper §6, docs/spec/tasks.md#c4).

struct FinetuneOptions {
  /// Documents are long: one at a time needs the least memory.
  static TrainingOptions usual_training() {
    return {.per_device_train_batch_size = 1, .gradient_accumulation_steps = 8};
  }
  TrainingOptions training = usual_training();
  /// File or folder of examples with labels.
  std::string train_path = {};
  /// Data for the evaluations that training.eval_strategy asks for; empty: none.
  std::string validation_path = {};
  /// Not 0: this share of the examples of train_path is evaluated on rather than learned, drawn by
  /// training.seed: examples with equal ids or texts together, each class alike.
  double validation_split = 0;
  /// Cross-validation: train_path in so many parts, drawn likewise, of which the one of this number
  /// (from 1) is evaluated on. cross_validate() trains all of them, where `fold` is 0.
  std::int64_t folds = 0, fold = 0;
  /// Whether a part of train_path is evaluated on.
  bool splits() const { return validation_split > 0 || folds > 0; }
  /// Whether there is something to evaluate on.
  bool has_validation() const { return splits() || !validation_path.empty(); }
  /// Weights of the classes in the loss of a training, of tasks with classes: "balanced", n ÷ (k ·
  /// count) as in scikit-learn, "label=weight,label=weight", or a JSON object. Evaluations do not
  /// use them. Empty: all weigh alike.
  std::string class_weights = {};
  DataOptions data = {};
  /// "classify", "ner", "qa", "trivia", "choose", "candidates", "coreference", "multihop",
  /// "seq2seq", "embedding" or "rerank"; empty takes that of the folder's head. "trivia" (TriviaQA)
  /// has the head of "qa", which takes its data too; "rerank" has that of "classify" with one
  /// class.
  std::string task = {};
  /// Handling of documents longer than the model. split trains on each segment with the part of the
  /// answer in it.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  /// Longest document in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
  /// Draws the head anew, with the labels of the data, where the folder has one for the task.
  bool new_head = false;
  /// Another name of max_length; and, for seq2seq, the longest text, in tokens with the special
  /// ones; 0: that of the model. Longer texts are cut.
  std::int64_t max_source_tokens = 0, max_target_tokens = 0;
  /// seq2seq: an evaluation writes the texts, as `generation` says, and compares; else it has the
  /// loss alone.
  bool predict_with_generate = false;
  GenerationOptions generation = {};
  /// Empty: where the head has it.
  std::optional<GlobalAttention> global_attention = {};
  /// Global tokens use, and train, the query, key and value of all others instead of their own: an
  /// ablation of the paper. The folder must have equal ones, as after conversion.
  bool shared_global_projections = false;
  /// BigBird: the blocks that tokens see besides those around them. "seeded": drawn as
  /// `transformers` draws them; "none": the first one stands for them, as in use. Empty: as the
  /// folder was trained, else seeded.
  std::string random_blocks = {};
  /// Rate of the weights that are not encoder; 0 takes training.learning_rate. Where that is 0 the
  /// encoder is frozen.
  double head_learning_rate = 0;
  /// Label all tokens of a word rather than its first one.
  bool label_all_pieces = false;
  /// Least score of multi-label evaluation.
  float threshold = 0.5f;
  /// Vectors of texts: how many examples of a micro-batch are in memory with their activations at a
  /// time; the others wait, which costs a second forward pass and changes nothing else (GradCache).
  /// 0: all.
  std::int64_t mini_batch_size = 0;
  /// Tokens of a forward pass over examples of an evaluation that have no loss; others are run in
  /// the batches of their loss.
  std::int64_t batch_tokens = EvaluateOptions().batch_tokens;
};

OptionFields fields(FinetuneOptions& options);

/// Counts of a data set, before the training begins.
struct FinetuneData {
  std::string task;
  std::vector<std::string> labels;
  std::string problem_type;
  std::int64_t examples = 0;
  /// Fault of the first example that was left out.
  std::string first_skipped;
  /// How the data were understood, where they could be understood otherwise: the problem type that
  /// the labels make, labels that are numbers of classes, columns.
  std::vector<std::string> notes;
  /// Rows of tokens to train on.
  std::int64_t rows = 0, tokens = 0;
  /// Examples of each of the labels, for tagging words; none where there are no classes.
  std::vector<std::int64_t> label_counts = {};
  /// Numbers of examples that were left out or cut, or teach nothing: counters of the task.
  Counts counts = {};
  /// Weights that the folder did not have and that were drawn.
  std::vector<std::string> drawn;
  /// Special tokens that the tokenizer did not have; their embeddings were drawn.
  std::vector<std::string> added_tokens;
};

/// Notes about the data before a training: those of reading, and a sentence for each count that
/// is not 0.
std::vector<CountNote> notes_of(const FinetuneData& data);

struct FinetuneCallbacks {
  TrainingCallbacks training = {};
  std::function<void(const FinetuneData&)> data = {};
  /// Called with the counts of the validation data, if there will be an evaluation.
  std::function<void(const FinetuneData&)> validation = {};
};

/// Trains encoder and head of a folder on a data set; a folder without a head for the task gets one
/// whose weights are drawn. Labels are those of the folder when its head fits, else those of the
/// data in sorted order. The metric for the best model is the first one of the task's evaluation
/// unless training.metric_for_best_model names another. Throws Error.
TrainingResult finetune(const std::string& folder, const FinetuneOptions& options,
                        const FinetuneCallbacks& callbacks = {});

/// Mean of a metric over folds, and its sample standard deviation (n − 1).
struct MetricSpread {
  std::string name;
  double mean = 0, deviation = 0;
};

/// Metrics of the models of all folds.
struct CrossValidation {
  /// One for each fold that was trained; its metrics are those of TrainingResult::metrics.
  std::vector<TrainingResult> folds = {};
  std::vector<MetricSpread> metrics = {};
  /// Ended by the stop callback in the fold behind these.
  bool interrupted = false;
};

struct CrossValidationCallbacks {
  FinetuneCallbacks training = {};
  /// Called before each fold with its number, from 1.
  std::function<void(std::int64_t fold)> fold = {};
};

/// Trains the folds of FinetuneOptions::folds one after another, in folders fold-1, fold-2, … of
/// training.output_dir, which gets folds.json with the metrics. training.resume_from_checkpoint
/// "last" goes on in the fold in which a training has stopped. Throws Error.
CrossValidation cross_validate(const std::string& folder, const FinetuneOptions& options,
                               const CrossValidationCallbacks& callbacks = {});
/// {"folds": [{"fold", "step", "metrics"}], "mean", "deviation"}.
std::string to_json(const CrossValidation& result);

// Training masked-language models on plain text (Longformer paper §5, docs/spec/training.md#c3).

struct MaskedLmTraining {
  /// The paper's (docs/spec/training.md#c3), with rows one at a time.
  static TrainingOptions usual_training() {
    return {.per_device_train_batch_size = 1,
            .gradient_accumulation_steps = 8,
            .learning_rate = 3e-5,
            .weight_decay = 0.01,
            .adam_epsilon = 1e-6,
            .lr_scheduler_type = "polynomial",
            .warmup_steps = 500};
  }
  TrainingOptions training = usual_training();
  /// Plain text, one document per file, line or object (DataOptions::format).
  std::vector<std::string> train_files = {};
  /// Held-out text: loss, BPC and perplexity where training.eval_strategy asks for them. Empty:
  /// none.
  std::string validation_file = {};
  DataOptions data = {};
  /// Choice of the tokens to guess, and packing of documents into rows. Only evaluation uses its
  /// seed.
  MaskingOptions masking = {};
  /// Not 0: only the rows of positions from this one on are trained, all other weights are frozen
  /// (the paper's "extra positions only").
  std::int64_t only_positions_from = 0;
  /// See FinetuneOptions.
  std::string random_blocks = {};
  /// Copy query, key and value into the global projections of what is written: no token is global
  /// here, so they are not trained.
  bool copy_globals = true;
};

OptionFields fields(MaskedLmTraining& options);

/// Trains the masked LM of a folder: a converted BERT or RoBERTa, a model without such a head,
/// which gets one, or a folder with config.json and tokenizer alone, whose weights are drawn.
/// Checkpoints and the final model go to training.output_dir. Throws Error.
TrainingResult train_masked_lm(const std::string& folder, const MaskedLmTraining& options,
                               const TrainingCallbacks& callbacks = {});

}  // namespace longformer
