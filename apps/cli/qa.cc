// longformer qa: answers from documents.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "advice.h"
#include "document_stream.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "qa_multi_hop.h"
#include "qa_retrieved.h"
#include "retrieval.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct QaFlags {
  ModelFlags model;
  InputOptions inputs;
  std::vector<std::string> questions;
  AnswerOptions options;
  /// Models for multi-hop question answering.
  MultiHopAnswerOptions multi_hop;
  bool no_answer = false;
  /// Answers are compared over all documents.
  bool best = false;
  RetrievalFlags retrieval;
};

class QaRun {
 public:
  QaRun(const QaFlags& flags, Messages& messages)
      : flags_(flags),
        documents_(flags.inputs, flags.model, messages,
                   {"question", "score", "logit", "begin", "end", "place", "text"}),
        answerer_(QuestionAnswerer::load(flags.model.token_model_folder(),
                                         flags.model.load_options(messages))) {}

  void run() {
    answerer_.answer([this] { return next_question(); },
                     [this](const AnswerOutcome& outcome) { take(outcome); }, flags_.options);
    documents_.finish();
    for (const AskedOfAll& asked : asked_of_all_) {
      documents_.results().has_rows() ? write_best_json(asked) : write_best_text(asked);
    }
    documents_.results().finish();
  }

 private:
  /// Every question about one document, then those about the next. Called on the thread of the
  /// tokenizer.
  std::optional<Question> next_question() {
    if (next_ == asked_.size()) {
      auto document = documents_.next();
      if (!document) return std::nullopt;
      asked_ = flags_.questions;
      if (!document->question.empty()) asked_ = {document->question};
      text_ = std::move(document->text);
      next_ = 0;
      for (std::size_t i = 0; i < asked_.size(); ++i) {
        waiting_.push({asked_[i], i == 0, i + 1 == asked_.size()}, 0);
      }
    }
    return Question{asked_[next_++], text_};
  }

  void take(const AnswerOutcome& outcome) {
    const auto next = waiting_.pop();
    if (!next) throw std::logic_error("an outcome without a question");
    const Asked& asked = next->item;
    if (asked.first) document_ = documents_.take();
    if (asked.first && flags_.best) all_documents_.push_back(document_);
    if (!outcome.error.empty()) {
      documents_.fail(document_, advised(outcome.error, outcome.remedies));
    } else {
      documents_.note_length(document_, outcome.tokens, outcome.truncated, outcome.segments);
      flags_.best ? keep_best(asked.question, outcome) : write(asked.question, outcome);
    }
    tokens_ += outcome.tokens;
    if (asked.last) documents_.done(std::exchange(tokens_, 0));
  }

  void write(const std::string& question, const AnswerOutcome& outcome) {
    const std::vector<Answer> answers = ranked(outcome);
    documents_.results().has_rows() ? write_json(question, outcome, answers)
                                    : write_text(question, answers);
  }

  /// These are of the document that was taken last.
  void keep_best(const std::string& question, const AnswerOutcome& outcome) {
    const auto [place, is_new] = places_.try_emplace(question, asked_of_all_.size());
    if (is_new) asked_of_all_.push_back({question, BestAnswers(flags_.options.top_k), 0});
    AskedOfAll& asked = asked_of_all_[place->second];
    asked.best.add(all_documents_.size() - 1, placed(outcome.answers));
    ++asked.documents;
  }

  /// The answers with their places in the document that was taken last.
  std::vector<Answer> placed(std::vector<Answer> answers) const {
    for (Answer& answer : answers) answer.place = place_of(document_.places, answer.span);
    return answers;
  }

  /// The answers, and with --no-answer among them the empty one.
  std::vector<Answer> ranked(const AnswerOutcome& outcome) const {
    std::vector<Answer> answers = placed(outcome.answers);
    if (!flags_.no_answer) return answers;
    const auto place = std::find_if(answers.begin(), answers.end(), [&](const Answer& answer) {
      return answer.score < outcome.no_answer_score;
    });
    answers.insert(place, {.score = outcome.no_answer_score,
                           .logit = outcome.no_answer_logit,
                           .span = {},
                           .text = {}});
    if (answers.size() > static_cast<std::size_t>(flags_.options.top_k)) answers.pop_back();
    return answers;
  }

  void write_text(const std::string& question, std::span<const Answer> answers) {
    for (const Answer& answer : answers) {
      documents_.output().write(fmt::format("{}\t{}\t{:.4f}\t{}\t{}\t{}\n", document_.field(),
                                            on_one_line(question), answer.score, answer.span.begin,
                                            answer.span.end, on_one_line(answer.text)));
    }
  }

  void write_json(const std::string& question, const AnswerOutcome& outcome,
                  std::span<const Answer> answers) {
    AnswerOutcome shown = outcome;
    shown.answers.assign(answers.begin(), answers.end());
    JsonLine json = document_.json();
    json.add("question", question).add_members(to_json(shown));
    documents_.results().add_list(json, "answers");
  }

  /// A question and its best answers in all documents that it was asked about.
  struct AskedOfAll {
    std::string question;
    BestAnswers best;
    std::int64_t documents = 0;
  };

  void write_best_text(const AskedOfAll& asked) {
    for (const auto& [document, answer] : asked.best.answers()) {
      documents_.output().write(
          fmt::format("{}\t{}\t{:.4f}\t{}\t{}\t{}\n", all_documents_[document].field(),
                      on_one_line(asked.question), answer.logit, answer.span.begin, answer.span.end,
                      on_one_line(answer.text)));
    }
  }

  void write_best_json(const AskedOfAll& asked) {
    std::vector<JsonLine> rows;
    for (const auto& [document, answer] : asked.best.answers()) {
      rows.emplace_back(all_documents_[document].json()).add_members(to_json(answer));
    }
    JsonLine json;
    json.add("question", asked.question).add("documents", asked.documents);
    documents_.results().add_list(json.add_objects("answers", rows), "answers");
  }

  struct Asked {
    std::string question;
    /// Whether it is the first and the last one about its document.
    bool first = false, last = false;
  };

  const QaFlags& flags_;
  DocumentStream documents_;
  QuestionAnswerer answerer_;
  std::vector<std::string> asked_;
  std::size_t next_ = 0;
  std::string text_;
  Waiting<Asked> waiting_;
  Document document_;
  std::int64_t tokens_ = 0;
  /// Result of --best: all documents that were read, without their texts, and the questions in
  /// their order, with the place of each.
  std::vector<Document> all_documents_;
  std::vector<AskedOfAll> asked_of_all_;
  std::map<std::string, std::size_t> places_;
};

/// Throws UsageError for flags that only models for one document have.
MultiHopQuestions multi_hop_questions(const QaFlags& flags) {
  if (flags.options.top_k != 1 || flags.no_answer || flags.best ||
      !flags.inputs.question_field.empty()) {
    throw UsageError(
        "--top-k, --no-answer, --best and --question-field are for models that read one document, "
        "not for "
        "one of multi-hop question answering");
  }
  MultiHopAnswerOptions options = flags.multi_hop;
  options.max_answer_tokens = flags.options.max_answer_tokens;
  options.too_long = flags.options.too_long;
  options.global_attention = flags.options.global_attention;
  options.batch_tokens = flags.options.batch_tokens;
  options.max_length = flags.options.max_length;
  InputOptions inputs = flags.inputs;
  // Records of questions with their paragraphs have a reader of their own.
  inputs.has_no_tables = flags.questions.empty();
  return {flags.model, std::move(inputs), flags.questions, std::move(options)};
}

/// Throws UsageError for flags that are not for passages of many documents.
RetrievedQuestions retrieved_questions(const QaFlags& flags) {
  if (flags.no_answer || flags.best || !flags.inputs.question_field.empty()) {
    throw UsageError(
        "--retrieve compares the answers of all passages: leave out --no-answer, --best and "
        "--question-field");
  }
  return {flags.model, flags.inputs, flags.questions, flags.options, flags.retrieval};
}

bool is_named_table(const std::string& file) { return !table_format_of(file).empty(); }

void check(const QaFlags& flags) {
  if (flags.questions.empty() && flags.inputs.question_field.empty()) {
    throw UsageError("no question: give --question, or --question-field with a table");
  }
  if (flags.best && flags.no_answer) {
    throw UsageError("--best compares answers of many documents: leave out --no-answer");
  }
  const InputOptions& inputs = flags.inputs;
  const bool has_table = inputs.are_tables || std::ranges::any_of(inputs.files, is_named_table);
  if (!inputs.question_field.empty() && !has_table) {
    throw UsageError(
        "--question-field",
        "expected a table: .csv, .tsv or .jsonl, or --text-field, which names the field "
        "of the text");
  }
}

}  // namespace

void add_qa(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<QaFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "qa",
       .description = "Answer questions with spans of documents.",
       .details =
           "The model needs a question-answering head. Every question is asked about every "
           "document. Prints file, question, score, first and last character + 1, and text "
           "of each answer, tab-separated. With --best the documents are searched for the "
           "best answer of all. With --retrieve a search finds the best passages in "
           "files, folders or an index first, and only these are read; without --question "
           "each line of stdin is then one. A model for multi-hop question answering (finetune "
           "--task multihop) reads all documents together, as paragraphs: the first line is "
           "the answer, then each sentence that supports it is a line, and what the line is "
           "stands before the file. Without --question it reads questions with their "
           "paragraphs, as HotpotQA has them.",
       .examples =
           "longformer qa MODEL paper.txt --question \"Who was studied?\"\n"
           "longformer qa MODEL novel.txt --question \"Who is Alice?\" --stride 512 --top-k 3\n"
           "longformer qa MODEL page1.txt page2.txt page3.txt --question \"Who was it?\" --best "
           "--stride 128\n"
           "longformer qa MODEL notes --retrieve 8 --question \"Who was it?\" --json\n"
           "longformer qa MODEL --index notes.index --embedder EMBEDDER --filter \"date>=2024\" "
           "--question \"Who was it?\"\n"
           "longformer qa MULTIHOP-MODEL smith.txt jones.txt --question \"Who is older?\"\n"
           "longformer qa MULTIHOP-MODEL hotpot_dev_distractor_v1.json --json\n"
           "longformer qa MODEL squad.jsonl --text-field context --question-field question "
           "--json"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  CLI::Option* question =
      add_repeatable(verb, "-q,--question", flags->questions, "a question; may be repeated");
  verb.add_option("--question-field", flags->inputs.question_field,
                  "field or column of a table that holds the question about its text")
      ->type_name("NAME")
      ->excludes(question);
  // The flags about answers of one document stand behind those of their number.
  const OptionFields options = fields(flags->options);
  const std::vector<std::string> of_answers = {"top_k", "max_answer_tokens"};
  add_fields(verb, only(options, of_answers));
  verb.add_flag("--no-answer", flags->no_answer,
                "rank \"no answer\", an empty text, among the answers (models trained on SQuAD 2)");
  verb.add_flag("--best", flags->best,
                "the best --top-k answers in all documents that a question is asked about, by "
                "logit, which stands in place of the score");
  add_fields(verb, only(fields(flags->multi_hop), {"evidence_paragraphs"}));
  add_fields(verb, without(options, of_answers));
  add_retrieval(verb, flags->retrieval);
  add_fields(verb, only(fields(flags->retrieval.options), {"search_weight"}));
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  add_device(verb, flags->model);
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) {
      if (MultiHopAnswerer::is_one(flags->model.token_model_folder())) {
        return answer_multi_hop(multi_hop_questions(*flags), messages);
      }
      if (flags->retrieval.is_asked()) {
        return answer_retrieved(retrieved_questions(*flags), messages);
      }
      check(*flags);
      QaRun(*flags, messages).run();
    };
  });
}

}  // namespace longformer::cli
