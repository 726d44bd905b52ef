// Options that several calls share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace longformer {

/// An option as every interface shows it: the flag --learning-rate of the program, the keyword
/// learning_rate of Python, a key of JSON. The structs of options list theirs: fields(options).
struct OptionField {
  // Values that are written otherwise than they are kept. `read` throws Error("expected …, found
  // …"); `shown` is the value before the user gives one, empty where that is none.

  struct Text {
    std::function<void(const std::string&)> read;
    std::function<std::string()> shown;
  };
  struct Whole {
    std::function<void(std::int64_t)> read;
    std::function<std::optional<std::int64_t>()> shown;
  };
  /// A flag that stands for a value of a member; it can only be raised.
  struct Flag {
    std::function<void()> raise;
    std::function<bool()> shown;
  };
  /// The member of the struct, which must outlive the field; `Numbers` have a fixed count.
  using Numbers = std::span<double>;
  using Value =
      std::variant<bool*, std::int64_t*, std::uint64_t*, double*, float*, std::string*,
                   std::vector<std::string>*, std::vector<std::int64_t>*, std::optional<bool>*,
                   std::optional<std::int64_t>*, std::optional<double>*,
                   std::optional<std::string>*, Numbers, Text, Whole, Flag>;

  /// In words with underscores.
  std::string name;
  Value value = {};
  /// A phrase. "{}" stands for the value before the user gives one: the default.
  std::string help;
  /// The heading that the option stands under.
  std::string group = {};
  /// Stands for the value in help, as FOLDER; empty: by the type of the value.
  std::string type = {};
  /// The texts that are allowed; empty: any.
  std::vector<std::string> choices = {};
  static constexpr std::int64_t kMostWhole = std::int64_t{1} << 30;
  /// The numbers that are allowed, both included. Whole numbers end at 2^30 at the latest.
  double least = 0, most = std::numeric_limits<double>::infinity();
  /// `least` itself is not allowed, or `most`.
  bool is_above_least = false, is_below_most = false;
  /// The flag turns a bool off, as no_quotes.
  bool is_contrary = false;
  /// A letter that stands for the flag, too.
  std::string letter = {};
  /// A flag that stands for this choice, as --bf16 for --dtype bf16.
  std::string shorthand = {};
  /// Other options of the list, which must not be given beside it.
  std::vector<std::string> excludes = {};
  /// Given once for each text of a list, where others take texts between commas.
  bool is_repeated = false;
};

using OptionFields = std::vector<OptionField>;

/// `help` with the value in place of "{}".
std::string help_of(const OptionField& field);

/// The options of these names, and the others.
OptionFields only(OptionFields fields, const std::vector<std::string>& names);
OptionFields without(OptionFields fields, const std::vector<std::string>& names);

/// Sets the options that a JSON object has; null and an absent key set nothing, and keys that are
/// no option mean nothing here. Throws Error for a value of another type or out of bounds; its
/// `option` is the key.
void read_options(const OptionFields& fields, const std::string& json);

/// Purpose of a list of options: some belong to training alone, some to evaluation.
enum class OptionUse { training, evaluation };

/// More is an Error wherever a number of threads is an option; 0 always takes what CPU affinity,
/// the cgroup quota, OMP_NUM_THREADS and OMP_THREAD_LIMIT allow. A number that is given counts
/// against all of these but OMP_THREAD_LIMIT. Inside a parallel region of OpenMP every call
/// computes on one thread. A call leaves the OpenMP settings of its thread as they are, and
/// callbacks run with them; dynamic teams (OMP_DYNAMIC) and OMP_MAX_ACTIVE_LEVELS change no call.
inline constexpr int kMostThreads = 1024;

enum class TooLong {
  /// Throw Error with the length, the limit, and the remedies.
  refuse,
  /// Keep the first tokens that fit.
  truncate,
  /// Cut into overlapping segments of the full length; vectors pool over all tokens, each token
  /// taken from the segment in which it has most context.
  split,
};

/// How the logits of the segments of one document become those of the document, class by class.
enum class SegmentMerge { mean, max };

/// How tokens become entities, as in `transformers`. A word is a token with the tokens that
/// continue it; a group is a run of tokens or words of one label, where a label "B-…" begins a new
/// one.
enum class Aggregation {
  none,     ///< every token by itself, with its whole label
  simple,   ///< groups of tokens
  first,    ///< groups of words; a word has the scores of its first token
  average,  ///< groups of words; a word has the mean scores of its tokens
  max,      ///< groups of words; a word has the scores of its surest token
};

/// The measure that a model was trained with, as sentence-transformers names it. Larger is
/// nearer for all of them: the two distances count with a minus sign.
enum class Similarity { cosine, dot, euclidean, manhattan };

/// Parses cosine, dot, euclidean or manhattan. Throws Error for anything else.
Similarity similarity(const std::string& name);
std::string_view name_of(Similarity similarity);

/// The similarity of two vectors of one size. The cosine with a vector of zeros is 0.
float similarity(Similarity kind, std::span<const float> a, std::span<const float> b);

struct TextEncoding {
  /// "utf-8", "auto", or another one by the name that web pages use or iconv knows, as "latin-1"
  /// (which is read as windows-1252, as browsers do) or "utf-16". auto: UTF-8 where that is what
  /// all bytes are, else windows-1252. A byte-order mark (UTF-8, UTF-16, UTF-32) at the beginning
  /// of a text counts more than the name, and with "utf-8" and "auto" so does the look of UTF-16
  /// without a mark.
  std::string name = "utf-8";
  /// Is told of what is not in the encoding, of bytes 0, and of what auto takes for windows-1252:
  /// one line for each text, which begins with its name.
  std::function<void(const std::string& note)> note = {};
};

/// Choice of the tokens that a masked-LM model has to guess.
struct MaskingOptions {
  /// A token is chosen with this probability; of the chosen ones 80 % become the mask, 10 % a
  /// random token, 10 % stay (RoBERTa, docs/spec/training.md#c3).
  double probability = 0.15;
  std::uint64_t seed = 1;
  /// Not 0: every so many-th token becomes the mask instead, without chance.
  std::int64_t every = 0;
  /// Length of a row with special tokens; 0 takes what the model takes.
  std::int64_t row_tokens = 0;
  /// Fill rows across the ends of documents, with a separator between.
  bool across_documents = true;
};

// How texts are written: the options of transformers' generate(), under their names
// (docs/spec/led-and-generation.md#b6 to #b11).

/// Tokens that follow each other, and what is added to the logit of the last one.
struct SequenceBias {
  std::vector<std::int32_t> ids;
  double bias = 0;
};

/// An absent option is as the folder says (generation_config.json, else config.json), else as
/// `transformers` has it. Lengths count tokens and the start token; max_new_tokens and
/// min_new_tokens do not count it and come before max_length and min_length.
struct GenerationOptions {
  std::optional<std::int64_t> max_length = {}, max_new_tokens = {};
  std::optional<std::int64_t> min_length = {}, min_new_tokens = {};
  /// Seconds after which a text ends behind the token that is being written.
  std::optional<double> max_time = {};
  std::optional<std::vector<std::string>> stop_strings = {};

  std::optional<std::int64_t> num_beams = {}, num_return_sequences = {};
  std::optional<double> length_penalty = {};
  /// "true", "false" or "never".
  std::optional<std::string> early_stopping = {};

  std::optional<bool> do_sample = {};
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, typical_p = {}, top_h = {};
  std::optional<double> epsilon_cutoff = {}, eta_cutoff = {};
  std::optional<std::int64_t> top_k = {};

  std::optional<double> repetition_penalty = {}, encoder_repetition_penalty = {};
  std::optional<std::int64_t> no_repeat_ngram_size = {}, encoder_no_repeat_ngram_size = {};
  std::optional<std::vector<std::vector<std::int32_t>>> bad_words_ids = {};
  std::optional<std::vector<SequenceBias>> sequence_bias = {};
  std::optional<std::vector<std::int32_t>> suppress_tokens = {}, begin_suppress_tokens = {};
  std::optional<std::int64_t> forced_bos_token_id = {};
  std::optional<std::vector<std::int32_t>> forced_eos_token_id = {};
  /// Tokens behind which the end becomes likelier, and the factor for each of them.
  std::optional<std::pair<std::int64_t, double>> exponential_decay_length_penalty = {};
  std::optional<bool> remove_invalid_values = {}, renormalize_logits = {};

  std::optional<std::int64_t> decoder_start_token_id = {}, bos_token_id = {}, pad_token_id = {};
  std::optional<std::vector<std::int32_t>> eos_token_id = {};
};

/// Calls visit(name, help, option) for every option of one or of several of them in step.
template <typename Visit, typename... Options>
void for_each_generation_option(Visit&& visit, Options&... options) {
  visit("max_length", "most tokens with the start token", options.max_length...);
  visit("max_new_tokens",
        "most tokens to write; counts before --max-length (summarize 512, generate 20)",
        options.max_new_tokens...);
  visit("min_length", "fewest tokens with the start token", options.min_length...);
  visit("min_new_tokens", "fewest tokens to write; counts before --min-length",
        options.min_new_tokens...);
  visit("max_time", "seconds after which texts end", options.max_time...);
  visit("stop_strings", "a text ends behind it; may be repeated", options.stop_strings...);
  visit("num_beams", "texts that are followed at a time (1)", options.num_beams...);
  visit("num_return_sequences", "texts for each document (1)", options.num_return_sequences...);
  visit("length_penalty", "beams: scores are divided by length to this power (1)",
        options.length_penalty...);
  visit("early_stopping", "beams: true, false or never (false)", options.early_stopping...);
  visit("do_sample", "draw tokens instead of taking the likeliest", options.do_sample...);
  visit("temperature", "divides the logits before drawing (1)", options.temperature...);
  visit("top_k", "draw from so many of the likeliest tokens; 0 from all (50)", options.top_k...);
  visit("top_p", "draw from the likeliest tokens of this mass (1)", options.top_p...);
  visit("min_p", "draw from tokens at least this part as likely as the likeliest",
        options.min_p...);
  visit("typical_p", "draw from the most typical tokens of this mass (1)", options.typical_p...);
  visit("top_h", "draw from the likeliest tokens up to this part of the entropy", options.top_h...);
  visit("epsilon_cutoff", "draw from tokens at least so likely (0)", options.epsilon_cutoff...);
  visit("eta_cutoff", "as --epsilon-cutoff, lower if many tokens are likely (0)",
        options.eta_cutoff...);
  visit("repetition_penalty", "over 1: tokens of the text become less likely (1)",
        options.repetition_penalty...);
  visit("encoder_repetition_penalty", "over 1: tokens of the document become likelier (1)",
        options.encoder_repetition_penalty...);
  visit("no_repeat_ngram_size", "no so many tokens occur twice in a text; 0 is off (0)",
        options.no_repeat_ngram_size...);
  visit("encoder_no_repeat_ngram_size",
        "no so many tokens are copied from the document; 0 is off (0)",
        options.encoder_no_repeat_ngram_size...);
  visit("bad_words_ids", "ids such as 5,81 that do not follow each other; may be repeated",
        options.bad_words_ids...);
  visit("sequence_bias", "ids and what is added to the last logit: 5,81=-2.5; may be repeated",
        options.sequence_bias...);
  visit("suppress_tokens", "ids such as 3,17 that are never written", options.suppress_tokens...);
  visit("begin_suppress_tokens", "ids that no text begins with", options.begin_suppress_tokens...);
  visit("forced_bos_token_id", "the first token to write", options.forced_bos_token_id...);
  visit("forced_eos_token_id", "ids of which one is the last token at the limit",
        options.forced_eos_token_id...);
  visit("exponential_decay_length_penalty", "behind N tokens the end becomes likelier by F: N,F",
        options.exponential_decay_length_penalty...);
  visit("remove_invalid_values", "take logits that are no numbers for 0",
        options.remove_invalid_values...);
  visit("renormalize_logits", "probabilities sum to 1 behind all of this",
        options.renormalize_logits...);
  visit("decoder_start_token_id", "the token that texts begin with",
        options.decoder_start_token_id...);
  visit("bos_token_id", "start token without --decoder-start-token-id", options.bos_token_id...);
  visit("pad_token_id", "not used: nothing is padded", options.pad_token_id...);
  visit("eos_token_id", "ids that end a text", options.eos_token_id...);
}

struct CoreferenceOptions {
  /// "overlapping": a document longer than the model is read in segments that overlap, and a token
  /// comes from the one in which it has most context. "independent": segments of as many whole
  /// sentences as fit, one behind the other. "continued": the document with special tokens around
  /// it is cut behind every so many tokens, as fastcoref does it. Empty: that of the folder, else
  /// overlapping.
  std::string segments = {};
  /// Longest segment in tokens with special ones; 0: that of the folder, else the model's.
  std::int64_t max_segment_tokens = 0;
  /// Training: of a longer document a run of whole sentences of so many tokens is read, another one
  /// in every epoch.
  std::int64_t max_training_tokens = 8192;
  /// Evaluation: clusters of one mention count on neither side.
  bool without_singletons = false;

  // A new head; that of a folder keeps its own.

  /// Longest mention in words.
  std::int64_t max_span_width = 30;
  /// Mentions that are kept for linking, as a share of the tokens; 0: 0.3 where data have clusters
  /// of one mention, else 0.4.
  double top_lambda = 0;
  /// Width of its layers; 0: twice the hidden size.
  std::int64_t head_size = 0;
  double dropout = 0.3;
  /// Weight of the loss of the mention scores; 0 trains the links alone.
  double mention_loss = 1;
};

struct MultiHopOptions {
  /// Training: weights of the losses of answer spans, types of answer, paragraphs and sentences.
  std::array<double, 4> loss_weights = {1, 1, 1, 1};
  /// Training: kinds of edges that the encoder gets, names and titles
  /// (docs/spec/other-attentions.md#edges); empty: it keeps those that it has.
  std::vector<std::string> edges = {};
  /// From how many paragraphs the evidence comes; 0: every sentence whose logit is above 0.
  std::int64_t evidence_paragraphs = 2;
  /// A selection of paragraphs (EvaluateOptions::selected) has those whose logit is above the
  /// threshold, at most so many, and never fewer than two.
  std::int64_t keep_paragraphs = 5;
  double paragraph_threshold = -3;
};

/// Rule by which a text has one of the known answers.
enum class AnswerMatching {
  /// A run of words of the text that are the words of an answer, both normalised as TriviaQA's
  /// evaluation does it, so that exactly what the metric would call right is found, and never a
  /// part of a word.
  words,
  /// The authors' way: the answer as it is, without regard to case, anywhere, also inside words.
  substring,
};

/// Loss over several right spans of a document.
enum class AnswerLoss {
  /// −log of the probability of all of them together ("OR loss"), over all rows of the document.
  any,
  /// Cross-entropy with the first one of the text.
  first,
};

struct TriviaOptions {
  /// Folder of the documents, with "wikipedia" and "web" in it; empty: ../evidence of the file.
  std::string evidence = {};
  AnswerMatching matching = AnswerMatching::words;
  AnswerLoss loss = AnswerLoss::any;
  /// Tokens read of a question.
  std::int64_t max_question_tokens = 55;
};

struct RetrievalOptions {
  /// Judgements to use: those in qrels/SPLIT.tsv, or qrels/SPLIT.txt.
  std::string split = "test";
  /// Whether a document may be an answer to the query of its own id. Where it is the same text, as
  /// in ArguAna and Quora, that is no answer; so BEIR leaves it out of every ranking.
  bool keep_identical_ids = false;
};

/// Loss for texts that belong together. The names are those of sentence-transformers.
enum class EmbeddingLoss {
  /// MultipleNegativesRankingLoss: cross-entropy of an anchor's cosines ÷ temperature with the
  /// positives and negatives of the whole batch, of which its own positive is right. A text that is
  /// the right one's equal is left out.
  contrastive,
  /// TripletLoss: max(0, |anchor − positive| − |anchor − negative| + margin).
  triplet,
  /// CosineSimilarityLoss: squared difference of the cosine of two texts and their score.
  cosine,
  /// MSELoss: squared difference of the elements of a vector and those of its teacher, alone.
  distillation,
};

struct EmbeddingTrainingOptions {
  /// Absent: cosine where the data have scores, contrastive where they have anchors or questions,
  /// else distillation. Where there are teacher's vectors, distillation is added to the others.
  std::optional<EmbeddingLoss> loss = {};
  /// Temperature of the contrastive loss.
  double temperature = 0.05;
  /// The contrastive loss is the mean of that of the anchors among the positives, and of the
  /// positives among the anchors (MultipleNegativesSymmetricRankingLoss).
  bool symmetric = false;
  /// Margin of the triplet loss.
  double margin = 5;
  /// Factor of the distillation where it is added to another loss.
  double distillation_weight = 1;
  /// A document without "passages" is cut into passages of so many tokens, as `search` cuts it,
  /// each with a vector from the states of the document; 0: it has one vector.
  std::int64_t passage_tokens = 0;
  /// Model folder whose vectors of the same texts, passages alone, are to be learned; empty: none,
  /// or those of the data.
  std::string teacher = {};
};

class KeptInputs;

struct DataOptions {
  /// "jsonl", "json" (a list of objects, SQuAD, TriviaQA, WikiHop), "csv", "tsv", "fasttext",
  /// "imdb", "hyperpartisan", "conll", "text" or "lines"; empty to find out from name and beginning
  /// of the file.
  std::string format = {};
  /// Fields of objects and columns.
  std::string text_field = "text", pair_field = "text_pair";
  /// Name of an example in results; empty: "id" or "_id", where there is one.
  std::string id_field = {};
  /// Empty: "label" or "labels"; for tokens also "ner_tags" or "tags"; for choices also "answer".
  /// CoNLL columns have numbers from 1, as text_field may be.
  std::string label_field = {};
  /// Classification: "single_label_classification", "multi_label_classification" or "regression";
  /// empty: that of the model's head, else found out from the labels.
  std::string problem_type = {};
  /// Names of the columns of a CSV or TSV file without a header.
  std::vector<std::string> columns = {};
  /// The character of ASCII between the fields of CSV and TSV files; empty: by the first line, a
  /// comma, a tab, a semicolon or a bar.
  std::string delimiter = {};
  /// Whether CSV and TSV files quote (RFC 4180).
  bool quotes = true;
  TextEncoding encoding = {};
  /// Leave out a broken record and count it; without, it is an Error.
  bool skip_invalid = false;
  CoreferenceOptions coreference = {};
  EmbeddingTrainingOptions embedding = {};
  MultiHopOptions multi_hop = {};
  TriviaOptions trivia = {};
  RetrievalOptions retrieval = {};
  /// The bytes of pipes and standard input ("-"), which can be read once. Empty: every call keeps
  /// them for itself, and reads them whole before it computes.
  std::shared_ptr<KeptInputs> inputs = {};
  /// Options of tasks that have no member above, by their names; each task puts its own in.
  std::map<std::string, std::variant<bool, std::int64_t, double, std::string>> further = {};
};

/// How files are read; without the options of the tasks and without `skip_invalid`.
OptionFields fields(DataOptions& options);
/// Reading of files of plain text.
OptionFields text_fields(DataOptions& options);
/// Reading of documents without labels from tables: those of `fields` that are about text and id.
OptionFields table_fields(DataOptions& options);
/// The options that each task adds, in the order of the table of tasks.
OptionFields task_fields(DataOptions& options, OptionUse use);
OptionFields fields(MaskingOptions& options);
OptionField encoding_field(TextEncoding& encoding);

struct ConvertOptions {
  /// "longformer" (of a BART: LED), "linformer", "performer", "blockwise", "sparse" or "big_bird"
  /// (of a BERT). The first and the last compute what the source does, for documents within their
  /// windows; the others have to be trained. "longformer-lm" reads a Transformer-XL of its authors'
  /// code, beside whose weights stands a config.json with "symbols" or "vocabulary", and mem_len,
  /// tgt_len and so on where they are known, or a Reformer of transformers. Of other options it
  /// knows format and overwrite.
  std::string target = "longformer";
  /// Longest document of the result in tokens, special tokens included. Absent: 4096 for a
  /// Longformer that is made of another encoder, else that of the source. A model with rotary
  /// positions stays of its family: config.json changes alone.
  std::optional<std::int64_t> max_positions = {};
  /// For a Linformer: rows that stand for all tokens (N/4, at most 256); "linear", "mean", "max",
  /// "convolution" or "full-convolution"; "layerwise", "key-value", "headwise" or "none"; "pooled",
  /// "xavier", "gaussian" or "orthogonal". Empty: linear, layerwise, pooled.
  std::optional<std::int64_t> projected_length = {};
  std::string projection = {}, projection_sharing = {}, projection_initialization = {};
  /// For a Performer: their number (256), "softmax", "hyperbolic", "trigonometric", "relu" or
  /// "elu", and what is added to each.
  std::optional<std::int64_t> features = {};
  std::string feature_kernel = {};
  std::optional<double> feature_epsilon = {};
  /// For a BlockBERT: blocks of a text (2), and how many heads see the block that is 0, 1, … behind
  /// a token's own. Empty: a sixth of the heads for each, the others see their own.
  std::optional<std::int64_t> blocks = {};
  std::vector<std::int64_t> block_heads = {};
  /// For a Sparse Transformer: "strided" or "fixed"; tokens from one far key to the next, or of a
  /// block (64); of a block, those that others see (a quarter; fixed); "merged", "interleaved" or
  /// "heads". Empty: strided, merged.
  std::string pattern = {};
  std::optional<std::int64_t> stride = {}, summary = {};
  std::string integration = {};
  /// Random projections and features follow from it.
  std::uint64_t seed = 42;
  /// Total windows, half on each side; even: one for all layers, or one for each. Empty: those of
  /// the source if it is a Longformer, else 512.
  std::vector<std::int64_t> windows = {};
  /// For a Longformer: how many tokens apart the keys of a window stand: one number for all layers,
  /// or one for each. Empty: as in the source, else 1. More than 1 is another attention than the
  /// source's, and has to be trained.
  std::vector<std::int64_t> dilations = {};
  /// The last so many heads of a layer are dilated, the others see adjacent tokens. Absent: all.
  std::optional<std::int64_t> dilated_heads = {};
  /// For an LED: most rows of a document that its decoder sees, each the mean of neighbouring
  /// tokens, so that long texts cost the same however long the document is. Absent: as in the
  /// source, else all tokens. It is another attention than the source's, and has to be trained.
  std::optional<std::int64_t> cross_attention_rows = {};
  /// How a model with rotary positions reads longer documents than before: "yarn" or "base", which
  /// multiplies rope_theta. Empty: yarn.
  std::string rotary = {};
  /// "safetensors" or "bin": which file holds the weights.
  std::string format = "safetensors";
  /// "fp32", "fp16" or "bf16"; empty keeps that of every tensor. "int8": matrices of layers become
  /// 8-bit whole numbers with a scale for each row, and all else stays.
  std::string dtype = {};
  /// Layers that int8 leaves as they are: see LoadOptions::int8_skip.
  std::vector<std::string> int8_skip = {};
  /// The folder of a LoRA adapter of the source: its additions are merged into the weights, and
  /// nothing else becomes otherwise. Of the other options only format, dtype and overwrite go with
  /// it. Empty: none.
  std::string merge_adapter = {};
  /// Replace a previous conversion in the target folder.
  bool overwrite = false;
  /// Told in one line which weights of the source are NaN or infinite, if any; they are kept.
  std::function<void(const std::string&)> note = {};
};

/// Source of a conversion.
struct ConvertedFrom {
  /// Its model_type, or "original longformer".
  std::string model_type;
  std::int64_t max_tokens = 0;
};

}  // namespace longformer
