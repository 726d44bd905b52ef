// How well a model does on a data set with labels: metrics as scikit-learn, seqeval and the scripts
// of SQuAD count them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/classification.h"
#include "longformer/dataset.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/progress.h"
#include "longformer/tokenizer.h"
#include "longformer/too_long.h"

namespace longformer {

/// Which tokens of a text a masked-LM model has to guess.
struct MaskingOptions {
  /// A token is chosen with this probability; of the chosen ones 80 % become the mask, 10 % a
  /// random token, 10 % stay (RoBERTa, spec.md C.3).
  double probability = 0.15;
  std::uint64_t seed = 1;
  /// Not 0: every so many-th token becomes the mask instead, without chance.
  std::int64_t every = 0;
  /// Length of a row with special tokens; 0 takes what the model takes.
  std::int64_t row_tokens = 0;
  /// Fill rows across the ends of documents, with a separator between.
  bool across_documents = true;
};

struct EvaluateOptions {
  DataOptions data = {};
  /// What becomes of documents longer than the model, as in ClassifyOptions, TagOptions and
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
  /// Called with every example in order, a JSON object on one line without its line break; the keys
  /// are those of docs/cli.md.
  std::function<void(std::string_view)> predictions = {};
  /// The total of tokens is an estimate from the examples that are done.
  ProgressCallback progress = {};
};

/// Precision, recall and F1 of one label, or of one type of entity.
struct LabelMetrics {
  std::string label;
  double precision = 0, recall = 0, f1 = 0;
  /// Examples or entities of this label.
  std::int64_t support = 0;
};

struct Evaluation {
  /// ModelInfo::head.
  std::string task;
  /// Names and values, the most telling one first:
  /// - single-label: accuracy, f1 (of the second of two labels only), f1_macro, f1_weighted,
  ///   precision_macro, recall_macro
  /// - multi-label: f1_micro, f1_macro, f1_weighted, precision_micro, recall_micro, accuracy (all
  ///   labels of a document)
  /// - regression: pearson, spearman, mse, mae
  /// - token classification: f1, precision, recall (of whole entities), f1_macro, accuracy (of
  /// words)
  /// - question answering, in percent: f1, exact_match, and where there are unanswerable questions
  ///   has_answer_f1, has_answer_exact_match, no_answer_exact_match
  /// - multiple choice: accuracy
  /// - masked LM: loss (mean cross-entropy of the chosen tokens), bpc (loss ÷ ln 2, bits per chosen
  ///   token, the paper's "BPC"), perplexity, accuracy
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<LabelMetrics> labels;

  /// Examples that were scored, and those left out as broken (DataOptions::skip_invalid).
  std::int64_t examples = 0, skipped = 0;
  /// What was wrong with the first that was left out.
  std::string first_skipped;
  /// Without text; they are scored.
  std::int64_t empty = 0;
  /// Tokens of all examples with special ones, before truncation; and what truncation cut off.
  std::int64_t tokens = 0, truncated_examples = 0, truncated_tokens = 0;
  /// Examples that were read in several segments.
  std::int64_t segmented_examples = 0;
  /// Words that no token was read of; scored as "O".
  std::int64_t unread_words = 0;
  /// Masked LM: tokens that were chosen, of rows whose tokens are `tokens`.
  std::int64_t masked_tokens = 0;
  double seconds = 0;
};

/// Reads the data set of `path` in a format that fits the head of the model, runs the model as the
/// verbs classify, ner, qa, choose and fill-mask do, and compares. Throws Error for a model without
/// a head, for data that cannot be read, and unless `data.skip_invalid` for an example that is
/// broken, whose labels the model does not have, or that is too long.
Evaluation evaluate(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                    const EvaluateOptions& options = {});

}  // namespace longformer
