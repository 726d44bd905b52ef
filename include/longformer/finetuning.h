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
  /// Draws the head anew, with the labels of the data, where the folder has one for the task.
  bool new_head = false;
  /// Longest document and, for seq2seq, longest text, in tokens with the special ones; 0: those of
  /// the model. Longer texts are cut.
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
