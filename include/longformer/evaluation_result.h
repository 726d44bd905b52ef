// What an evaluation finds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "longformer/counts.h"

namespace longformer {

/// Precision, recall and F1 of one label, or of one type of entity.
struct LabelMetrics {
  std::string label;
  double precision = 0, recall = 0, f1 = 0;
  /// Examples or entities of this label.
  std::int64_t support = 0;
};

/// The form in which the authors of a task publish predictions:
/// EvaluateOptions::official_predictions.
struct PublishedForm {
  /// For messages.
  std::string name = "JSON (.json)";
  /// How names of such files end.
  std::vector<std::string> endings = {".json"};
};

struct Evaluation {
  /// ModelInfo::head, or "retrieval".
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
  /// - questions over paragraphs, from 0 to 1, as the script of HotpotQA calls them: joint_f1,
  ///   joint_em, joint_prec, joint_recall, the same of answers without "joint_" and of supporting
  ///   facts with "sp_"; then paragraph_recall and type_accuracy
  /// - TriviaQA, in percent of the keys that a prediction is wanted for: f1, exact_match, for
  ///   Wikipedia oracle_exact_match (some document's answer is right; not of files of predictions);
  ///   and common (keys with a prediction) and denominator (keys), which stand alone for data
  ///   without answers
  /// - multiple choice: accuracy
  /// - coreference: conll_f1 (mean of the F1 of MUC, B³ and CEAF-φ4), then f1, precision and recall
  ///   of each of mentions, muc, b_cubed, ceaf_e and lea (such as muc_f1), and with a model
  ///   pruning_recall (right mentions among the spans that pruning left)
  /// - texts: rouge1, rouge2, rougeL, rougeLsum, mean F over the examples as rouge_score
  ///   has it; with intervals also rouge1_low, rouge1_high and so on, 2.5th and 97.5th percentile
  /// - retrieval, from 0 to 1, means over the queries as trec_eval has them: ndcg_at_10, mrr_at_10,
  ///   map and recall_at_1, _5, _10, _100 and _1000
  /// - masked LM: loss (mean cross-entropy of the chosen tokens), bpc (loss ÷ ln 2, bits per chosen
  ///   token, the paper's "BPC"), perplexity, accuracy
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<LabelMetrics> labels;

  /// Examples that were scored, and their tokens with special ones, before truncation.
  std::int64_t examples = 0, tokens = 0;
  /// What was left out, cut, or could not be read: counters of the task, such as
  /// counts["truncated_examples"]. docs/evaluate.md lists them.
  Counts counts = {};
  /// What was wrong with the first example that was left out.
  std::string first_skipped;
  /// How the data were understood, where they could be understood otherwise.
  std::vector<std::string> notes = {};
  double seconds = 0;
};

/// What the reader of the figures should know: the notes, and a sentence for each count that is not
/// 0.
std::vector<CountNote> notes_of(const Evaluation& result);

}  // namespace longformer
