// Tasks over documents and questions: one class for each head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/document.h"
#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/places.h"
#include "longformer/report.h"
#include "longformer/text.h"

namespace longformer {

// Classes of documents of any length (docs/spec/encoder.md#a6): the text-classification pipeline.

/// How logits become scores: over all classes together, for each class by itself, or not at all.
enum class ScoreFunction { softmax, sigmoid, none };

struct ClassifyOptions {
  /// Absent, as in the pipeline of `transformers`: none for problem_type regression, sigmoid for
  /// multi_label_classification and for a single class, else softmax.
  std::optional<ScoreFunction> function;
  /// TooLong::split reads a document that is longer than the model in segments of the model's
  /// length that overlap by at least `stride` tokens, and merges their logits.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  SegmentMerge merge = SegmentMerge::mean;
  /// Absent: the first token of every document or segment (Longformer).
  std::optional<GlobalAttention> global_attention;
  /// Documents of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
  /// Longest document in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
};

OptionFields fields(ClassifyOptions& options);

/// A text, or a pair of texts. Of a pair that is too long TooLong::truncate cuts the longer text;
/// TooLong::split keeps the first one whole and reads the second in segments.
struct ClassifyInput {
  std::string text;
  std::optional<std::string> pair = {};
};

struct ClassScore {
  std::string label;
  float score = 0;
};

struct Classification {
  /// Every class, best score first; classes with the same score in the order of the model.
  std::vector<ClassScore> scores;
  /// Every class, in the order of the model (ModelInfo::labels).
  std::vector<float> logits;
  /// Tokens of the document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off.
  std::int64_t truncated = 0;
  /// Segments that the document was read in.
  std::int64_t segments = 0;
};

/// Outcome of one document: its classes, or the reason why it cannot be classified.
struct ClassifyOutcome {
  std::string error;
  Classification classification;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"tokens", "truncated", "segments", "labels": [{"label", "score"}, …]}, the best `top_k`
/// classes; 0: all.
std::string to_json(const Classification& result, std::int64_t top_k = 0);

/// A sequence-classification model with its tokenizer.
class Classifier {
 public:
  /// Throws Error for a model without a sequence-classification head.
  Classifier(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no sequence-classification head.
  static Classifier load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next text or pair, or nothing at the end. Called on a thread of its own, so that reading
  /// and tokenizing overlap with computing.
  using Source = std::function<std::optional<ClassifyInput>()>;
  /// Called for every text in order, on the calling thread.
  using Sink = std::function<void(const ClassifyOutcome&)>;

  /// Classifies texts as they come. Throws Error for options that do not fit the model, and what
  /// source and sink throw; a text that cannot be classified is an outcome.
  void classify(const Source& source, const Sink& sink, const ClassifyOptions& options = {}) const;

  /// One result per text, in order. Throws Error for a text that cannot be classified.
  std::vector<Classification> classify(std::span<const std::string> texts,
                                       const ClassifyOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

// Entities in documents of any length (docs/spec/encoder.md#a6): the token-classification pipeline.

struct TagOptions {
  Aggregation aggregation = Aggregation::simple;
  /// Entities of these labels are left out.
  std::vector<std::string> ignored_labels = {"O"};
  /// TooLong::split reads a document that is longer than the model in segments of the model's
  /// length that overlap by at least `stride` tokens; a token takes its label from the segment in
  /// which it has most context.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  /// Absent: none.
  std::optional<GlobalAttention> global_attention;
  /// Documents of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
  /// Longest document in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
};

OptionFields fields(TagOptions& options);

struct Entity {
  /// Without "B-" or "I-", except with Aggregation::none.
  std::string label;
  /// Probability of the label; of a group the mean over its tokens or words.
  float score = 0;
  /// Characters of the document, and what stands there.
  CharacterSpan span;
  std::string text;
  /// First and last token + 1, counted from 0 without special tokens.
  std::int64_t first_token = 0, end_token = 0;
};

/// Outcome of one document: its entities in order, or the reason why it cannot be tagged.
struct TagOutcome {
  std::string error;
  std::vector<Entity> entities;
  /// Tokens of the document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off.
  std::int64_t truncated = 0;
  /// Segments that the document was read in.
  std::int64_t segments = 0;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"tokens", "truncated", "segments", "entities": [{"label", "score", "begin", "end", "text"},
/// …]}; `with_tokens` adds the first token of each entity as "token".
std::string to_json(const TagOutcome& result, bool with_tokens = false);

/// Outcome of a document that is given as words: the reason why it cannot be tagged, else a label
/// for each word, that of its first token. Lengths as in TagOutcome.
struct WordLabels {
  std::string error;
  /// Index in ModelInfo::labels; −1 for words without a token and behind a truncation.
  std::vector<std::int32_t> labels;
  std::int64_t tokens = 0, truncated = 0, segments = 0;
  std::vector<Remedy> remedies = {};
};

/// A token-classification model with its tokenizer.
class Tagger {
 public:
  /// Throws Error for a model without a token-classification head.
  Tagger(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no token-classification head.
  static Tagger load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next text, or nothing at the end. Called on a thread of its own, so that reading and
  /// tokenizing overlap with computing.
  using Source = std::function<std::optional<std::string>()>;
  /// Called for every text in order, on the calling thread.
  using Sink = std::function<void(const TagOutcome&)>;

  /// Tags texts as they come. Throws Error for options that do not fit the model, and what source
  /// and sink throw; a text that cannot be tagged is an outcome.
  void tag(const Source& source, const Sink& sink, const TagOptions& options = {}) const;

  /// The words of the next document, or nothing at the end; called as a Source is.
  using WordSource = std::function<std::optional<std::vector<std::string>>()>;
  using WordSink = std::function<void(const WordLabels&)>;
  /// Labels words as they come, each read by itself as `transformers` reads is_split_into_words:
  /// a byte-level tokenizer sees a space before each. Aggregation and ignored labels play no part.
  /// Throws as tag does.
  void label_words(const WordSource& source, const WordSink& sink,
                   const TagOptions& options = {}) const;

  /// The entities of each text. Throws Error for a text that cannot be tagged.
  std::vector<std::vector<Entity>> tag(std::span<const std::string> texts,
                                       const TagOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

// Guessing the tokens where a text has a mask: the fill-mask pipeline.

struct FillMaskOptions {
  /// Candidates of each mask.
  std::int64_t top_k = 5;
  /// Keep the first tokens of a text that is too long; without, it is an Error.
  bool truncate = false;
  /// Absent: none.
  std::optional<GlobalAttention> global_attention = {};
  /// Longest document in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
};

OptionFields fields(FillMaskOptions& options);

struct MaskCandidate {
  std::int32_t id = 0;
  /// The entry of the vocabulary, and what it reads.
  std::string token, text;
  /// Softmax over the vocabulary.
  double probability = 0;
};

struct FilledMask {
  /// Token of the text, from 0, special ones included.
  std::int64_t position = 0;
  /// Best first; of equals the smaller id.
  std::vector<MaskCandidate> candidates;
};

struct FilledText {
  /// Text with the best candidate in place of every mask.
  std::string text;
  /// Each is guessed by itself while the others stay masked.
  std::vector<FilledMask> masks;
  /// Tokens that were read with the special ones, and tokens that were cut off.
  std::int64_t tokens = 0, truncated = 0;
};

/// {"filled", "masks": [{"position", "candidates": [{"id", "token", "text", "probability"}, …]},
/// …]}.
std::string to_json(const FilledText& text);

/// A model with a masked-LM head and its tokenizer.
class MaskFiller {
 public:
  /// Throws Error for a model without a masked-LM head and a tokenizer without a mask.
  MaskFiller(Model model, Tokenizer tokenizer);
  /// Loads the model and the tokenizer of a folder.
  static MaskFiller load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// [MASK] and <mask> both stand for the mask of the tokenizer. Throws Error for a text without a
  /// mask, one that is too long, and logits that are not finite.
  FilledText fill(const std::string& text, const FillMaskOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

// Answers to questions about documents of any length, as spans of their text
// (docs/spec/encoder.md#a6).

struct Question {
  std::string question;
  /// The document that holds the answer.
  std::string text;
};

struct AnswerOptions {
  /// At most this many answers for a question; they do not overlap.
  std::int64_t top_k = 1;
  /// Longest answer.
  std::int64_t max_answer_tokens = 30;
  /// TooLong::split reads question and document in segments of the model's length, in which the
  /// parts of the document overlap by at least `stride` tokens; an answer is scored in the segment
  /// in which its middle has most context. The stride must be at least `max_answer_tokens`.
  TooLong too_long = TooLong::refuse;
  std::int64_t stride = 128;
  /// Absent: the question (Longformer).
  std::optional<GlobalAttention> global_attention;
  /// Documents of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
  /// Longest document in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
};

OptionFields fields(AnswerOptions& options);

struct Answer {
  /// Probability of the first times that of the last token, over all tokens of the document and the
  /// one for "no answer".
  float score = 0;
  /// Logit of the first plus that of the last token.
  float logit = 0;
  /// Characters of the document, in whole words, and what stands there.
  CharacterSpan span;
  std::string text;
  std::optional<PlaceSpan> place = {};  // set by programs that know the places of the document
};

/// An answer in one of many documents.
struct DocumentAnswer {
  /// The number of the document, from 0.
  std::size_t document = 0;
  Answer answer;
};

/// The best of the answers to one question in many documents, as TriviaQA asks for them. They are
/// compared by logit, since a score is a share of its own document; of equals the one that was
/// added first comes first.
class BestAnswers {
 public:
  /// Keeps the best `most` ones. Throws Error unless there is at least 1.
  explicit BestAnswers(std::int64_t most = 1);

  /// The answers of a document.
  void add(std::size_t document, std::span<const Answer> answers);
  /// Best first.
  const std::vector<DocumentAnswer>& answers() const { return answers_; }

 private:
  std::size_t most_;
  std::vector<DocumentAnswer> answers_;
};

/// Outcome of one question: its answers, best first, or the reason why it cannot be asked.
struct AnswerOutcome {
  std::string error;
  std::vector<Answer> answers;
  /// That the document has no answer, as models learn it from SQuAD 2: score and logit of the span
  /// that is the first token, from the segment where they are lowest. Means nothing for other
  /// models.
  float no_answer_score = 0;
  float no_answer_logit = 0;
  /// Tokens of question and document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off.
  std::int64_t truncated = 0;
  /// Segments that the document was read in.
  std::int64_t segments = 0;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"score", "logit", "begin", "end", "text"}.
std::string to_json(const Answer& answer);
/// {"tokens", "truncated", "segments", "answers": […], "no_answer_score", "no_answer_logit"}.
std::string to_json(const AnswerOutcome& result);

/// A question-answering model with its tokenizer.
class QuestionAnswerer {
 public:
  /// Throws Error for a model without a question-answering head.
  QuestionAnswerer(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no question-answering head.
  static QuestionAnswerer load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next question, or nothing at the end. Called on a thread of its own, so that reading and
  /// tokenizing overlap with computing.
  using Source = std::function<std::optional<Question>()>;
  /// Called for every question in order, on the calling thread.
  using Sink = std::function<void(const AnswerOutcome&)>;

  /// Answers questions as they come. Throws Error for options that do not fit the model, and what
  /// source and sink throw; a question that cannot be asked is an outcome.
  void answer(const Source& source, const Sink& sink, const AnswerOptions& options = {}) const;

  /// One outcome per question, in order, none with an error: throws Error instead.
  std::vector<AnswerOutcome> answer(std::span<const Question> questions,
                                    const AnswerOptions& options = {}) const;

  /// The best options.top_k answers to a question in any of the documents. Throws Error that names
  /// a document which cannot be asked by its number.
  std::vector<DocumentAnswer> best_answers(const std::string& question,
                                           std::span<const std::string> documents,
                                           const AnswerOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

// Answers that take several paragraphs, with the sentences that support them, from models for
// multi-hop question answering (HotpotQA; Longformer paper, appendix D).

struct MultiHopAnswerOptions {
  /// Longest answer.
  std::int64_t max_answer_tokens = 30;
  /// From how many paragraphs the evidence comes; 0: every sentence whose logit is above 0.
  std::int64_t evidence_paragraphs = MultiHopOptions().evidence_paragraphs;
  /// TooLong::split reads rows of as many whole paragraphs as fit, each behind the question;
  /// TooLong::truncate cuts the end.
  TooLong too_long = TooLong::refuse;
  /// This has no effect: rows do not overlap.
  std::int64_t stride = 0;
  /// Absent: the question and the marks of paragraphs and sentences (Longformer). "question" and
  /// "none" are the only rules.
  std::optional<GlobalAttention> global_attention = {};
  /// Rows of one forward pass together hold at most this many tokens (at least one row).
  std::int64_t batch_tokens = 8192;
  /// Longest document in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
};

OptionFields fields(MultiHopAnswerOptions& options);

/// A part of a title or sentence.
struct ParagraphSpan {
  std::int64_t paragraph = 0;
  /// −1: of the title.
  std::int64_t sentence = -1;
  /// Characters of the title or sentence.
  CharacterSpan characters = {};
};

/// A sentence that supports the answer.
struct Evidence {
  std::int64_t paragraph = 0, sentence = 0;
  /// The sigmoid of the logit is the probability.
  float logit = 0;

  float probability() const;
};

/// Outcome of one question: its answer, or the reason why it cannot be asked.
struct MultiHopOutcome {
  std::string error;
  /// "yes", "no" or the text of the span; empty where there is none.
  std::string answer;
  /// "span", "yes" or "no".
  std::string type;
  /// Probability of the type; of a span times those of its first and of its last token, over all
  /// tokens.
  float score = 0;
  /// Those of the type; a span has the logit of its first plus that of its last token.
  float logit = 0;
  /// Place of the answer; absent for yes and no.
  std::optional<ParagraphSpan> span = {};
  /// In the order of the paragraphs.
  std::vector<Evidence> evidence;
  /// [paragraphs]; −∞ for those that were not read.
  std::vector<float> paragraph_logits;
  /// Tokens of question and paragraphs with special ones, before truncation, and what
  /// TooLong::truncate cut off.
  std::int64_t tokens = 0, truncated = 0;
  /// Rows that were read.
  std::int64_t segments = 0;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// How the paragraphs of a question are shown.
struct MultiHopForm {
  /// [paragraphs] JSON objects whose members name them; empty: their titles do.
  std::vector<std::string> names = {};
  /// The text of a paragraph is its sentences as they are, as paragraph_of() cuts them; else a
  /// blank separates two sentences that have none between them.
  bool is_joined = false;
};

/// Place in the text of a paragraph, and what stands there.
struct ParagraphPart {
  CharacterSpan span;
  std::string text;
};
ParagraphPart part_of(const MultiHopQuestion& question, const ParagraphSpan& span,
                      const MultiHopForm& form = {});

/// A supporting sentence without the white space around it.
ParagraphSpan span_of(const MultiHopQuestion& question, const Evidence& evidence);

/// {"tokens", "truncated", "segments", "answer", "type", "score", "logit", "span": {"title",
/// "paragraph", "sentence", "begin", "end", "text"}, "evidence": [{as a span, "score", "logit"},
/// …], "paragraphs": [{"title", "logit"}, …]}, with null where there is no span, for the sentence
/// of a title, and for the logit of a paragraph that was not read.
std::string to_json(const MultiHopOutcome& result, const MultiHopQuestion& question,
                    const MultiHopForm& form = {});

/// A model for multi-hop question answering with its tokenizer.
class MultiHopAnswerer {
 public:
  /// Throws Error for a model without such a head, and for a tokenizer without the marks.
  MultiHopAnswerer(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no such head.
  static MultiHopAnswerer load(const std::string& folder, const LoadOptions& options = {});
  /// Whether the configuration of a folder names such a head. Throws Error when it cannot be read.
  static bool is_one(const std::string& folder);

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// Throws Error for options that do not fit the model; a question that cannot be asked is an
  /// outcome.
  MultiHopOutcome answer(const MultiHopQuestion& question,
                         const MultiHopAnswerOptions& options = {}) const;

  /// One outcome per question, in order, none with an error: throws Error instead.
  std::vector<MultiHopOutcome> answer(std::span<const MultiHopQuestion> questions,
                                      const MultiHopAnswerOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

/// A text as a paragraph; its sentences, behind each other, are the text.
Paragraph paragraph_of(std::string title, const std::string& text);

/// A question of a data set with its name there.
struct NamedMultiHopQuestion {
  /// `id_json` is the id as JSON: a number as it is written.
  std::string id, id_json;
  /// Number of the record, or line, from 1, and of the object on the line (0: it is the first).
  std::int64_t line = 0, record = 0;
  MultiHopQuestion question;
};

/// Questions in the forms of HotpotQA, a JSON list or a line each: see docs/cli.md. `name` stands
/// for the text in messages. Throws Error.
std::vector<NamedMultiHopQuestion> parse_multi_hop_questions(std::string_view text,
                                                             const std::string& name);

// Choosing among answers to a question about a text of any length that the model takes
// (docs/spec/encoder.md#a6).

/// The question of a JSON object: {"context", "question", "choices"}, SWAG's {"sent1", "sent2",
/// "ending0", …}, or WikiHop's {"query", "supports", "candidates"}, whose supports become one
/// context, a line each. Throws Error.
ChoiceQuestion parse_choice_question(std::string_view json);

struct ChooseOptions {
  /// For questions that are too long for the model: truncate keeps the first tokens of the context.
  /// split, which only a head for candidate scoring has, repeats question and candidates before
  /// every part of the supports and adds the logits of all parts, as the authors' script does.
  TooLong too_long = TooLong::refuse;
  /// Overlap of the parts, in tokens.
  std::int64_t stride = 0;
  /// Absent: of a Longformer, question and choices: what stands behind the first separators for
  /// multiple choice, before the first one for candidate scoring.
  std::optional<GlobalAttention> global_attention = {};
  /// Rows of one forward pass together hold at most this many tokens (at least one row).
  std::int64_t batch_tokens = 8192;
  /// Longest document in tokens with the special ones: longer ones are too long. 0: the model's.
  std::int64_t max_length = 0;
};

OptionFields fields(ChooseOptions& options);

struct ChoiceAnswer {
  /// Index of the choice with the largest logit.
  std::int64_t best = 0;
  /// One per choice.
  std::vector<float> logits;
  /// Softmax over the choices.
  std::vector<float> probabilities;
  /// Tokens of the longest pair, or of question, candidates and supports together, with special
  /// ones, before truncation; and what was cut from it.
  std::int64_t tokens = 0;
  std::int64_t truncated = 0;
  /// Rows in which a candidate was read.
  std::int64_t segments = 1;
};

/// {"tokens", "truncated", "segments", "best", "choice", "probabilities", "logits"}; `choices` are
/// those of the question.
std::string to_json(const ChoiceAnswer& answer, std::span<const std::string> choices);

/// Outcome of one question: its answer, or the reason why it cannot be answered.
struct ChoiceOutcome {
  std::string error;
  ChoiceAnswer answer;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// A model for multiple choice, which reads every choice apart as a pair, or for candidate scoring,
/// which reads them together (docs/spec/tasks.md#c4-candidates), with its tokenizer.
class Chooser {
 public:
  /// Throws Error for a model with neither of the heads.
  Chooser(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has neither of the heads.
  static Chooser load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The next question, or nothing at the end; called on a thread of its own.
  using Source = std::function<std::optional<ChoiceQuestion>()>;
  /// Called for every question in order, on the calling thread.
  using Sink = std::function<void(const ChoiceOutcome&)>;

  /// Answers questions as they come. Throws Error for options that do not fit the model, and what
  /// source and sink throw; a question that cannot be answered is an outcome.
  void choose(const Source& source, const Sink& sink, const ChooseOptions& options = {}) const;

  /// One answer per question, in order. Throws Error for a question that cannot be answered.
  std::vector<ChoiceAnswer> choose(std::span<const ChoiceQuestion> questions,
                                   const ChooseOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

// Mentions that mean the same, in documents of any length: people, places and things
// with everything that names them (Kirstain et al. 2021; docs/spec/tasks.md#t4).

struct ResolveOptions {
  /// "overlapping" or "independent", and the longest segment in tokens with special ones; see
  /// CoreferenceOptions. Empty and 0: those of the folder.
  std::string segments = {};
  std::int64_t max_segment_tokens = 0;
  /// Least overlap of overlapping segments, in tokens. Absent: 128, or a quarter of a short
  /// segment.
  std::optional<std::int64_t> stride = {};
  /// Clusters of one mention are left out.
  bool without_singletons = false;
  /// Segments of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
  /// Tells of the tokens of the document that is being read.
  ProgressCallback progress = {};
};

/// Without `progress`.
OptionFields fields(ResolveOptions& options);

struct Mention {
  WordSpan words;
  /// Characters of the text, and what stands there.
  CharacterSpan span;
  std::string text;
};

/// Outcome of one document: the reason why it cannot be read, else its clusters, in the order in
/// which their first mentions begin, each with its mentions in order.
struct CoreferenceOutcome {
  std::string error;
  std::vector<std::vector<Mention>> clusters;
  /// The words as BERT's basic tokenisation finds them, and those with which sentences begin. No
  /// mention crosses the end of a sentence where the model was trained so.
  std::vector<CharacterSpan> words;
  std::vector<std::int64_t> sentences;
  /// Tokens of all words, and segments that they were read in.
  std::int64_t tokens = 0, segments = 0;
  /// Remedies; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"tokens", "segments", "words", "clusters": [[{"begin", "end", "text"}, …], …]}.
std::string to_json(const CoreferenceOutcome& result);

/// A coreference model with its tokenizer.
class CoreferenceResolver {
 public:
  /// Throws Error for a model without a coreference head.
  CoreferenceResolver(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no coreference head.
  static CoreferenceResolver load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// Throws Error for options that do not fit the model; a text that cannot be read is an outcome.
  CoreferenceOutcome resolve(const std::string& text, const ResolveOptions& options = {}) const;

  /// One outcome per text, in order, none with an error: throws Error instead.
  std::vector<CoreferenceOutcome> resolve(std::span<const std::string> texts,
                                          const ResolveOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

/// The document in the form of CoNLL-2012, which its scorer and `finetune` read; `key` names it.
std::string conll_text(const std::string& text, const CoreferenceOutcome& found,
                       const std::string& key);

}  // namespace longformer
