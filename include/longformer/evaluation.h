// How well a model does on a data set with labels: metrics as scikit-learn, seqeval and the scripts
// of SQuAD count them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/generation.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/report.h"
#include "longformer/text.h"

namespace longformer {

class Embedder;  // embedding.h

struct EvaluateOptions {
  /// FinetuneOptions::task, of those with the head of the model; empty: told by model and data.
  std::string task = {};
  DataOptions data = {};
  /// Handling of documents longer than the model, as in ClassifyOptions, TagOptions and
  /// AnswerOptions. Multiple choice never splits; text for a masked LM is always packed into rows.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  SegmentMerge merge = SegmentMerge::mean;
  std::optional<GlobalAttention> global_attention = {};
  std::int64_t batch_tokens = 8192;
  /// Multi-label: a class whose probability exceeds it is predicted.
  float threshold = 0.5f;
  std::int64_t max_answer_tokens = 30;
  /// For data with unanswerable questions: "no answer" is predicted when its logit exceeds that of
  /// the best answer by more than this.
  float no_answer_threshold = 0;
  MaskingOptions masking = {};
  /// Writer of texts, made of the model, for a model that writes texts; it must outlive the
  /// evaluation. Its options are in `generation`, except those above: too_long, stride and
  /// global_attention, which by default is the first token.
  const TextGenerator* generator = nullptr;
  GenerationRequest generation = {};
  /// Embedder for the task "embedding", made of the model; it must outlive the evaluation.
  const Embedder* embedder = nullptr;
  /// Its longest text in tokens; 0: that of its folder.
  std::int64_t max_text_tokens = 0;
  /// ROUGE of stems (use_stemmer of rouge_score), and with the interval of each mean.
  bool rouge_stems = false;
  bool rouge_intervals = false;
  /// Called with every example in order, a JSON object on one line without its line break; the keys
  /// are those of docs/cli.md.
  std::function<void(std::string_view)> predictions = {};
  /// Called with the parts of a file of predictions in the form that the authors of the task
  /// published, which score() and the official scripts read. Throws Error for a task without one.
  std::function<void(std::string_view)> official_predictions = {};
  /// Called with the parts of the data set in its published form with the paragraphs alone that a
  /// second stage reads (MultiHopOptions), questions over paragraphs only: what such a stage is
  /// trained and evaluated on. Adds the metrics selected_gold_recall, the share of paragraphs with
  /// facts that are among them, and selected_all_gold, that of questions with all of theirs.
  std::function<void(std::string_view)> selected = {};
  /// The total of tokens is an estimate from the examples that are done.
  ProgressCallback progress = {};
};

OptionFields fields(EvaluateOptions& options);

/// Reads the data set of `path` in a format that fits the head of the model, runs the model as the
/// verbs classify, ner, qa, choose and fill-mask do, and compares. Throws Error for a model without
/// a head, for data that cannot be read, and unless `data.skip_invalid` for an example that is
/// broken, whose labels the model does not have, or that is too long.
Evaluation evaluate(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                    const EvaluateOptions& options = {});

/// Who read the examples of an evaluation: a file of predictions has none of the counts of a model.
enum class ReadBy { model, file };
/// {"task", "metrics": {…}, "labels": […], "examples", "skipped", "empty", "tokens", …, "seconds"}:
/// metrics, and the counters that the task has.
std::string to_json(const Evaluation& result, ReadBy read_by = ReadBy::model);

/// The counters of the evaluations of all tasks, each name once.
std::vector<const Counter*> evaluation_counters();

/// Names of the tasks of a head (ModelInfo::head), as EvaluateOptions::task has them: its own task
/// first, then tasks with other data ("qa", "trivia"). Empty for no head.
std::vector<std::string> tasks_of_head(const std::string& head);

/// Published form of a task, by the name that FinetuneOptions::task has, or "retrieval".
PublishedForm published_form(const std::string& task);

struct ScoreOptions {
  /// FinetuneOptions::task, or "retrieval"; empty: told by the data.
  std::string task = {};
  DataOptions data = {};
};

/// The official numbers of a file of predictions in the published form of the task, without a
/// model. Throws Error for data or predictions that cannot be read, and for a task without such a
/// form.
Evaluation score(const std::string& predictions, const std::string& path,
                 const ScoreOptions& options = {});

}  // namespace longformer
