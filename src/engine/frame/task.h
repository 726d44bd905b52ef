// A task: what a model is trained and used for, whole. Each is one file and one row of the table
// (table.h): its names and tensors, where it wants global attention, how its data are read, what
// rows and targets become of them, its loss, and how results are decoded and counted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/frame/class_weights.h"
#include "engine/frame/counters.h"
#include "engine/frame/data_file.h"
#include "engine/frame/head.h"
#include "engine/frame/labels.h"
#include "engine/frame/measured_pass.h"
#include "engine/reading/reading.h"
#include "longformer/report.h"
#include "longformer/text.h"

namespace longformer::engine {

class EvaluationRun;  // evaluation_run.h

/// Counts of the examples of a data set, so that nothing is lost unnoticed.
struct CollationReport {
  /// Examples, and those that were left out because they could not be read or made no rows.
  DataReport data = {};
  std::int64_t documents = 0;
  /// Tokens of the documents with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Rows of all documents; of multiple choice, of all choices.
  std::int64_t rows = 0;
  /// Counts of truncation and of the task.
  Counts counts = {};
};

/// Examples behind each other, as one forward pass and its loss take them.
struct TrainingBatch {
  models::Batch tokens;
  /// One for each document.
  std::vector<DocumentTarget> targets;
  /// How many documents each example has.
  std::vector<Index> questions;
};

/// Values that random choices in examples depend on.
struct Epoch {
  std::uint64_t seed = 0;
  std::int64_t number = 0;
};

/// Examples as the data set has them: no epoch of a training.
inline constexpr Epoch kUnchanged = {.seed = 0, .number = -1};

/// Examples as rows of tokens with what the model shall say of them.
class TrainingSet {
 public:
  virtual ~TrainingSet() = default;
  virtual Index size() const = 0;
  /// Tokens of each example.
  virtual std::span<const Index> lengths() const = 0;
  /// Throws Error for rows that the model does not take.
  virtual TrainingBatch batch(std::span<const Index> examples, const Epoch& epoch) const = 0;
  virtual const CollationReport& report() const = 0;
  /// Records for evaluations, one for each of the data set; empty unless
  /// CollationSetup::keeps_readings.
  virtual std::span<const ReadRecord> records() const { return {}; }
};

/// Parts that make rows of examples; they must outlive their products.
struct CollationSetup {
  const models::EncoderConfig& config;
  const Tokenizer& tokenizer;
  ReadingOptions reading;
  /// Every token of a word has its label, rather than its first one alone.
  bool label_all_pieces = false;
  /// Longest text to learn in tokens with the special ones; 0: what the model can write.
  Index max_target_tokens = 0;
  const DataOptions& data;
  /// TrainingSet::records: the examples are evaluated too.
  bool keeps_readings = false;
  /// The model's folder, for tasks whose rows depend on other files than the tokenizer's.
  std::string folder = {};
};

inline constexpr std::int32_t kNoStratum = -1;

/// Facts of an example that a split of its data set needs (split.h).
struct SplitRecord {
  Origin origin = {};
  /// Examples with an equal key stay together.
  std::vector<std::uint64_t> keys = {};
  /// Examples of a stratum are split alike: their class.
  std::int32_t stratum = kNoStratum;
};

/// A data set as it was read.
class DataSet {
 public:
  virtual ~DataSet() = default;
  /// Names of the classes for a head that has labels, and the problem_type of config.json.
  virtual std::vector<std::string> labels() const { return {}; }
  virtual std::string problem_type() const { return {}; }
  /// Kind of the labels of the data; absent where names and numbers mean the same.
  virtual std::optional<LabelKind> label_kind() const { return std::nullopt; }
  /// Whether every example has one right class, which label smoothing needs.
  virtual bool has_one_class() const { return true; }
  /// The fewest examples of a batch from which something is learned.
  virtual Index least_batch() const { return 1; }
  /// Whether what is learned are vectors of passages in their document.
  virtual bool has_passages() const { return false; }
  /// Keys of config.json that a new head on this encoder needs, with their values.
  virtual Json settings(const models::EncoderConfig& config) const {
    static_cast<void>(config);
    return Json::object();
  }
  /// Notes on reading; empty if evaluate() reads.
  virtual DataReport report() const { return {}; }
  /// Further keys of config.json that the training gives the encoder, whatever its head. Throws
  /// Error for an encoder that cannot have them.
  virtual Json encoder_settings(const models::EncoderConfig& config) const {
    static_cast<void>(config);
    return Json::object();
  }
  /// One for each example; empty: the data cannot be split.
  virtual std::vector<SplitRecord> split_records() const { return {}; }
  /// Takes these examples, ascending, out of the set: a set of their own with the same labels.
  virtual std::unique_ptr<DataSet> split_off(std::span<const Index> examples);
  /// How often each class is right; without counts where there are no classes.
  virtual ClassCounts class_counts() const { return {}; }

  /// The names of Evaluation::metrics in their order, the most telling one first.
  virtual std::vector<std::string> metric_names() const = 0;

  /// Throws Error unless data.skip_invalid for an example that does not become rows.
  virtual std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const = 0;
  /// Runs the model over all examples, and compares. Throws Error.
  virtual void evaluate(EvaluationRun& run) const = 0;

  /// Whether the authors of the task published a form of files of predictions, which evaluate()
  /// gives to EvaluationRun::publish and score() reads.
  virtual bool has_published_form() const { return false; }
  /// Compares such a file as evaluate() compares what a model says, and fills in metrics, examples
  /// and `missing`. Throws Error that names the file.
  virtual void score(const std::string& predictions, Evaluation& result) const;
  /// Whether evaluate() selects paragraphs for a second stage: EvaluationOptions::selected.
  virtual bool selects_paragraphs() const { return false; }
};

/// A published data set in a form of its own: a row in the table of its task.
struct PublishedData {
  /// Whether a file that begins so, with kTellingBytes or more of it, is one.
  bool (*recognises)(std::string_view beginning);
  std::unique_ptr<DataSet> (*read)(const std::string& path, const DataOptions& options);
  /// The name of its predictions in messages, and how names of such files end.
  std::string_view name, ending;
};
inline constexpr std::size_t kTellingBytes = 128;

struct TaskNames {
  /// ModelInfo::head, such as "sequence-classification"; empty for a task without layers of its
  /// own, which no folder is recognised by.
  std::string_view head;
  /// How `finetune` calls it, such as "classify"; empty for what it does not train.
  std::string_view verb;
  /// How the class names of `transformers` end, such as "ForSequenceClassification".
  std::string_view class_ending;
  /// A class of another library with the same head; empty for none.
  std::string_view other_class = {};
  /// How `evaluate` calls a task without a verb of `finetune`; empty for none.
  std::string_view evaluation = {};
};

/// Cost of a head in addition to the cost of an encoder over a document.
struct HeadCost {
  /// Useful FLOPs of a forward pass.
  double flops = 0;
  /// Most bytes that its values and their gradients take during a training step.
  Index training_bytes = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual const TaskNames& names() const = 0;
  /// Options that only this task has, in a training or an evaluation: flags of the program,
  /// keywords of Python and their help follow. An option without a member in DataOptions is one of
  /// `further`.
  virtual OptionFields options(DataOptions& /*data*/, OptionUse /*use*/) const { return {}; }

  /// The task whose head is trained: another one where two differ in their data alone.
  virtual const Task& of_head() const { return *this; }

  /// The parts of a head that is a classifier; absent for others, which override make_head and
  /// is_present.
  virtual std::optional<HeadParts> parts(const models::EncoderConfig& config) const = 0;
  /// Layers of a head without parts that keep their names when the encoder is converted.
  virtual std::vector<std::string> kept_layers() const { return {}; }
  /// Whether a new head begins with this tensor of a folder for another task, rather than with a
  /// drawn one.
  virtual bool begins_with(const std::string& tensor) const {
    static_cast<void>(tensor);
    return false;
  }
  /// Throws Error when a tensor is missing or of another shape than the configuration says.
  virtual std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                          const models::Weights& weights, DType dtype) const = 0;
  /// Whether the weights have the tensors of the head.
  virtual bool is_present(const models::EncoderConfig& config,
                          const models::Weights& weights) const;
  /// Whether logits cost so much that they are computed only where they are asked for.
  virtual bool has_logits_on_request() const { return false; }
  /// Whether the two logits of a token are those of a span that begins, and one that ends, there.
  virtual bool has_span_logits() const { return false; }
  /// Whether vectors of texts are trained, as the sentence-transformers files of the folder say.
  virtual bool makes_vectors() const { return false; }
  /// Whether the head tells classes apart: its logits belong to the labels of the configuration.
  virtual bool has_labels() const { return false; }

  /// Tokens with global attention unless a mask is given, ascending, as `transformers` places them;
  /// `ids` is not empty, and the model has global attention. Throws Error that begins with `name`
  /// for a document that lacks what they are found by.
  virtual std::vector<Index> globals_of_ids(const models::EncoderConfig& config,
                                            std::span<const std::int32_t> ids,
                                            const std::string& name) const;
  /// Global tokens if the text of each token is known: separators in a text do not count.
  virtual std::vector<Index> globals_of_texts(const models::EncoderConfig& config,
                                              const Encoding& tokens,
                                              const std::string& name) const;
  /// The longest document that the model takes for the task, in tokens.
  virtual Index longest_document(const models::EncoderConfig& config) const {
    return config.max_tokens();
  }

  /// The key of EncoderConfig::head_settings that the head reads; empty for none.
  virtual std::string_view settings_key() const { return {}; }
  /// Keys of these settings that the head does not read, in one line; empty for none. Throws Error
  /// for values that it cannot have.
  virtual std::string unused_settings(const models::EncoderConfig& config) const {
    static_cast<void>(config);
    return {};
  }

  /// Cost of the head over a document of so many tokens, if it matters.
  virtual HeadCost head_cost(const models::EncoderConfig& config, Index tokens) const {
    static_cast<void>(config);
    static_cast<void>(tokens);
    return {};
  }

  /// Throws Error for a rule of global attention, or a way with long documents, that the task does
  /// not have.
  virtual void check_global_rule(const std::string& rule) const;
  virtual void check_too_long(TooLong too_long) const;

  /// Special tokens that the texts of the task need.
  virtual std::span<const std::string> marks() const { return {}; }

  virtual PublishedForm published_form() const { return {}; }

  /// Counters of its evaluations beside examples and tokens, in the order of their JSON.
  virtual std::vector<const Counter*> counters() const { return reading_counters(); }

  /// Throws Error that names file and line.
  virtual std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                        const KnownLabels& known) const = 0;
  /// Whether a file that begins so is one of the task's published data sets.
  virtual bool recognises(std::string_view beginning) const {
    static_cast<void>(beginning);
    return false;
  }
};

/// Tokens of a document with global attention by default; none without a task.
std::vector<Index> default_globals(const models::EncoderConfig& config, const Task* task,
                                   std::span<const std::int32_t> ids, const std::string& name);

/// The options with the edges of the model, and with the task's own rule of global attention where
/// they have none. The task and the configuration must outlive them.
ReadingOptions with_globals(const models::EncoderConfig& config, const Task& task,
                            const std::string& name, ReadingOptions options);

/// The first separator behind a question. Throws Error that begins with `name` when there is none.
Index first_separator(const models::EncoderConfig& config, std::span<const std::int32_t> ids,
                      const std::string& name);
/// begin, begin + 1 … end − 1.
std::vector<Index> positions_between(Index begin, Index end);

/// Whether the head reads the pooler's output.
bool reads_pooler(const models::EncoderConfig& config, const Task* task);

/// The tensors of a head beside those of the encoder, with the pooler where the head reads it. With
/// a tied decoder, the masked LM has none for it.
std::vector<models::WeightRecord> head_tensors(const models::EncoderConfig& config,
                                               const Task* task);

}  // namespace longformer::engine
