// Fine-tuning a folder for a task (Longformer paper §6, docs/spec/tasks.md#c4).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longformer/counts.h"
#include "longformer/dataset.h"
#include "longformer/evaluation.h"
#include "longformer/global_attention.h"
#include "longformer/training.h"

namespace longformer {

struct FinetuneOptions {
  TrainingOptions training = {};
  /// File or folder of examples with labels.
  std::string train_path = {};
  /// Where training.eval_strategy asks for an evaluation; empty: none.
  std::string validation_path = {};
  DataOptions data = {};
  /// "classify", "ner", "qa", "trivia", "choose", "candidates", "coreference", "multihop",
  /// "seq2seq" or "embedding"; empty takes that of the folder's head. "trivia" (TriviaQA) has the
  /// head of "qa", which takes its data too.
  std::string task = {};
  /// What becomes of documents longer than the model. split trains on each segment with what of the
  /// answer is in it.
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

/// What a data set said before training began.
struct FinetuneData {
  std::string task;
  std::vector<std::string> labels;
  std::string problem_type;
  std::int64_t examples = 0;
  /// What was wrong with the first example that was left out.
  std::string first_skipped;
  /// How the data were understood, where they could be understood otherwise: the problem type that
  /// the labels make, labels that are numbers of classes, columns.
  std::vector<std::string> notes;
  /// Rows of tokens to train on.
  std::int64_t rows = 0, tokens = 0;
  /// What was left out or cut, and what teaches nothing: counters of the task.
  Counts counts = {};
  /// Weights that the folder did not have and that were drawn.
  std::vector<std::string> drawn;
  /// Special tokens that the tokenizer did not have; their embeddings were drawn.
  std::vector<std::string> added_tokens;
};

/// What is to be known of the data before training: the notes, and a sentence for each count that
/// is not 0.
std::vector<CountNote> notes_of(const FinetuneData& data);

struct FinetuneCallbacks {
  TrainingCallbacks training = {};
  std::function<void(const FinetuneData&)> data = {};
  /// The same of the validation data, where there will be an evaluation.
  std::function<void(const FinetuneData&)> validation = {};
};

/// Trains encoder and head of a folder on a data set; a folder without a head for the task gets one
/// whose weights are drawn. Labels are those of the folder when its head fits, else those of the
/// data in sorted order. The metric for the best model is the first one of the task's evaluation
/// unless training.metric_for_best_model names another. Throws Error.
TrainingResult finetune(const std::string& folder, const FinetuneOptions& options,
                        const FinetuneCallbacks& callbacks = {});

}  // namespace longformer
