// Progress, interruption and figures: what a call reports.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longformer {

struct Progress {
  std::int64_t documents_done = 0;
  std::int64_t documents_total = 0;
  std::int64_t tokens_done = 0;
  std::int64_t tokens_total = 0;
};

/// Called from the calling thread between units of work; may be empty. Throwing from it stops the
/// work.
using ProgressCallback = std::function<void(const Progress&)>;

/// While it lives, what its thread does in the library asks `check` about ten times a second, on
/// that thread and between two parts of the work. What check throws ends the work and comes out of
/// the call. Models and all other objects stay usable; a training that is ended so has no more than
/// the checkpoints that it had written. An interruption within another one replaces it for its
/// time.
class Interruption {
 public:
  explicit Interruption(std::function<void()> check);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Asks the check of this thread, if it has one whose time has come.
  static void poll();

 private:
  friend class ParallelLoop;
  /// The caller of ask() keeps the exception if none may leave.
  static void ask();
  /// Whether this thread is outside the parallel loops of the library.
  static bool may_throw();

  std::function<void()> check_;
  Interruption* outer_;
  std::chrono::steady_clock::time_point due_;
};

/// A sentence for one and for several; empty: nothing is said. In it `{n}` stands for the number,
/// `{NAME}` for that of another counter, or of "examples" or "tokens", `{NAME|noun|nouns}` for the
/// number with its noun (nouns: noun and an s), `{A+B|…}` for a sum, and `{first_skipped}` for what
/// was wrong with the first example that was left out.
struct CountSentence {
  std::string_view one = {}, many = {};
};

/// Kind of thing that is counted. Sentences stand in this order.
enum class CountScope { data_set, examples, parts };

/// A counter is described once, as a constant of the code that counts. JSON, notes, tables, Python
/// and docs/evaluate.md follow from it.
struct Counter {
  std::string_view name;
  /// For the table in docs/evaluate.md.
  std::string_view meaning;
  /// The notes of an evaluation, and of a training about its data.
  CountSentence evaluation = {}, training = {};
  /// The name of its row in the table of results; empty: it has none.
  std::string_view row = {};
  /// The option that changes it; empty for none.
  std::string_view option = {};
  CountScope scope = CountScope::examples;
  /// A model counts it, so that a file of predictions has none.
  bool is_of_model = false;
};

struct Count {
  const Counter* counter = nullptr;
  std::int64_t number = 0;
};

/// Counters with their numbers, in the order in which they were added.
class Counts {
 public:
  Counts() = default;
  /// All are 0.
  explicit Counts(std::span<const Counter* const> counters);

  /// The number of the counter, which is added where there is none of its name.
  std::int64_t& operator[](const Counter& counter);
  /// The number of the counter of that name; 0 where there is none.
  std::int64_t operator[](std::string_view name) const;

  const std::vector<Count>& all() const { return counts_; }

 private:
  std::vector<Count> counts_;
};

/// Sentence about a count that is not 0.
struct CountNote {
  CountScope scope = CountScope::examples;
  std::string text;
  /// Counter::option.
  std::string_view option = {};
};

/// Numbers and words that sentences name beside the counts.
struct CountContext {
  std::int64_t examples = 0, tokens = 0;
  std::string_view first_skipped = {};
};

/// The sentences of the counts that are not 0, in the order of their scopes; equal ones once.
std::vector<CountNote> notes_of(const Counts& counts, CountSentence Counter::*sentence,
                                const CountContext& context);

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
  /// - reranking, from 0 to 1, means over the queries with a relevant text: ndcg_at_10, mrr_at_10,
  ///   map, recall_at_1; among texts with one score the less relevant counts as the better one
  /// - masked LM: loss (mean cross-entropy of the chosen tokens), bpc (loss ÷ ln 2, bits per chosen
  ///   token, the paper's "BPC"), perplexity, accuracy
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<LabelMetrics> labels;

  /// Examples that were scored, and their tokens with special ones, before truncation.
  std::int64_t examples = 0, tokens = 0;
  /// Numbers of examples that were left out, cut, or could not be read: counters of the task, such
  /// as counts["truncated_examples"]. docs/evaluate.md lists them.
  Counts counts = {};
  /// Fault of the first example that was left out.
  std::string first_skipped;
  /// How the data were understood, where they could be understood otherwise.
  std::vector<std::string> notes = {};
  double seconds = 0;
};

/// The text as the standard has it, for parsers that are strict: NaN, infinite and too large
/// numbers become null, and half of a surrogate pair, as texts have that were cut in UTF-16,
/// becomes U+FFFD. All else stays as it is, what is no JSON too.
std::string standard_json(std::string_view text);
/// Whether a text is one JSON value, as standard_json() turns it.
bool is_json_value(const std::string& text);

/// A member of a JSON object. Its value is JSON as it is written, without blanks outside strings: a
/// number keeps all of its digits, however long it is.
struct JsonMember {
  std::string name, value;
};
/// The members of an object in their order. The text must be well-formed JSON, here and below.
std::vector<JsonMember> json_members(std::string_view object);
/// The value of the last member of a name; empty: there is none.
std::string json_member(std::string_view object, std::string_view name);
/// The texts of the elements of a list, parts of it.
std::vector<std::string_view> json_elements(std::string_view list);

/// One JSON object on one line, keys in the order in which they are added. NaN and infinite numbers
/// become null, control characters escapes.
class JsonLine {
 public:
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  JsonLine& add(std::string_view key, std::int64_t value);
  JsonLine& add(std::string_view key, double value);
  /// The fewest digits that give the same float again.
  JsonLine& add(std::string_view key, float value);
  JsonLine& add(std::string_view key, bool value);
  JsonLine& add(std::string_view key, std::span<const float> values);
  JsonLine& add(std::string_view key, std::span<const std::int32_t> values);
  JsonLine& add(std::string_view key, std::span<const std::int64_t> values);
  JsonLine& add(std::string_view key, std::span<const std::string> values);
  /// Spans as pairs [begin, end].
  template <typename Span>
  requires requires(const Span& span) { span.begin + span.end; }
  JsonLine& add(std::string_view key, std::span<const Span> spans) {
    std::vector<std::int64_t> ends;
    for (const Span& span : spans) ends.insert(ends.end(), {span.begin, span.end});
    return add_pairs(key, ends);
  }
  /// [rows, row_size] as an array of arrays.
  JsonLine& add_rows(std::string_view key, std::span<const float> values, std::int64_t rows);
  /// [n, 2] as an array of pairs.
  JsonLine& add_pairs(std::string_view key, std::span<const std::int64_t> values);
  JsonLine& add_null(std::string_view key);
  /// A value that is JSON already.
  JsonLine& add_json(std::string_view key, std::string_view json);
  JsonLine& add_objects(std::string_view key, std::span<const JsonLine> values);
  /// All members of an object, such as a result in JSON.
  JsonLine& add_members(std::string_view object);

  /// The object without a line break.
  std::string object() const;
  std::string line() const;

 private:
  void key(std::string_view name);
  std::string text_;
};
/// Notes for the reader of the figures: those of the data, and a sentence for each count that is
/// not 0.
std::vector<CountNote> notes_of(const Evaluation& result);

}  // namespace longformer
