// longformer choose: the best of several answers to a question.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "advice.h"
#include "document_stream.h"
#include "longformer/error.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "output.h"
#include "progress.h"
#include "verbs.h"
#include "waiting.h"

namespace longformer::cli {

namespace {

struct ChooseFlags {
  ModelFlags model;
  InputOptions inputs;
  std::string context_file;
  std::string question;
  std::vector<std::string> choices;
  ChooseOptions options;
};

/// A question, and where it comes from.
struct Asked {
  Document document;
  ChoiceQuestion question;
};

/// Reads the question of a JSON object; a fault becomes the document's error.
Asked parsed(Document document, const std::string& text) {
  Asked asked{std::move(document), {}};
  try {
    asked.question = parse_choice_question(text);
  } catch (const Error& error) {
    asked.document.error = error.what();
  }
  return asked;
}

/// Reads the question of a line of JSON, or all of a list, as WikiHop's files are: each has the
/// number of its record for a line.
std::deque<Asked> parsed(Document document) {
  std::deque<Asked> all;
  if (!document.error.empty()) {
    all.push_back({std::move(document), {}});
    return all;
  }
  const std::string text = standard_json(std::exchange(document.text, {}));
  const auto value = nlohmann::json::parse(text, nullptr, false);
  const auto add = [&](const nlohmann::json& object, const std::string& json) {
    Document one = document;
    if (object.is_object() && object.contains("id")) one.id = object["id"].dump();
    all.push_back(parsed(std::move(one), json));
    // The bytes of a list are read once.
    document.bytes = 0;
  };
  if (!value.is_array()) {
    add(value, text);
    return all;
  }
  document.line = 0;
  for (const auto& object : value) {
    ++document.line;
    add(object, object.dump());
  }
  return all;
}

class ChooseRun {
 public:
  ChooseRun(const ChooseFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        chooser_(Chooser::load(flags.model.encoder_folder(), flags.model.load_options(messages))) {
    if (flags.choices.empty()) inputs_.emplace(flags.inputs, messages);
  }

  void run() {
    const ChooseOptions& options = flags_.options;
    if (!inputs_) {
      answer_one(options);
      return;
    }
    ProgressLine progress(messages_, inputs_->total_documents(), inputs_->total_bytes());
    progress_ = &progress;
    chooser_.choose([this] { return next_question(); },
                    [this](const ChoiceOutcome& outcome) { take(outcome); }, options);
    while (const auto unread = waiting_.pop()) {
      fail(unread->item.document, unread->item.document.error);
    }
  }

 private:
  /// The question of the command line.
  void answer_one(const ChooseOptions& options) {
    Asked asked;
    asked.document.file = "--choice";
    asked.question.question = flags_.question;
    asked.question.choices = flags_.choices;
    if (!flags_.context_file.empty()) {
      Document context;
      InputOptions file = {.files = {flags_.context_file}};
      file.encoding = flags_.inputs.encoding;
      Inputs(file, messages_).next(context);
      if (!context.error.empty()) throw Error(flags_.context_file + ": " + context.error);
      asked.document.file = flags_.context_file;
      asked.question.context = context.text;
    }
    answer(asked, options);
  }

  void answer(const Asked& asked, const ChooseOptions& options) {
    bool given = false;
    chooser_.choose(
        [&]() -> std::optional<ChoiceQuestion> {
          if (std::exchange(given, true)) return std::nullopt;
          return asked.question;
        },
        [&](const ChoiceOutcome& outcome) { report(asked, outcome); }, options);
  }

  /// The next question that can be read; called on the thread of the tokenizer.
  std::optional<ChoiceQuestion> next_question() {
    while (true) {
      if (read_.empty()) {
        Document document;
        if (!inputs_->next(document)) return std::nullopt;
        if (document.error.empty() && document.text.empty()) continue;
        read_ = parsed(std::move(document));
        continue;
      }
      Asked asked = std::move(read_.front());
      read_.pop_front();
      const std::int64_t bytes = asked.document.bytes;
      const bool readable = asked.document.error.empty();
      ChoiceQuestion question = asked.question;
      asked.question.context.clear();
      asked.question.supports.clear();
      waiting_.push(std::move(asked), bytes);
      if (readable) return question;
    }
  }

  void take(const ChoiceOutcome& outcome) {
    while (const auto next = waiting_.pop()) {
      const auto& [asked, bytes] = *next;
      const ProgressCallback progress = progress_->unit(1, bytes);
      if (!asked.document.error.empty()) {
        fail(asked.document, asked.document.error);
        continue;
      }
      report(asked, outcome);
      const std::int64_t tokens = outcome.answer.tokens;
      if (progress) progress({1, 1, tokens, tokens});
      return;
    }
  }

  void report(const Asked& asked, const ChoiceOutcome& outcome) {
    if (!outcome.error.empty())
      return fail(asked.document, advised(outcome.error, outcome.remedies));
    const ChoiceAnswer& answer = outcome.answer;
    const std::string& text = asked.question.choices[static_cast<std::size_t>(answer.best)];
    if (answer.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept {}", asked.document.label(), answer.tokens,
                                 answer.tokens - answer.truncated));
    }
    if (flags_.model.json) {
      JsonLine json = asked.document.json();
      output_.write(json.add_members(to_json(answer, asked.question.choices)).line());
    } else {
      const float probability = answer.probabilities[static_cast<std::size_t>(answer.best)];
      output_.write(
          fmt::format("{}\t{}\t{:.4f}\n", asked.document.field(), on_one_line(text), probability));
    }
    output_.flush();
  }

  void fail(const Document& document, const std::string& reason) {
    messages_.error(document.label() + ": " + reason);
    if (flags_.model.json) output_.write(document.json().add("error", reason).line());
  }

  const ChooseFlags& flags_;
  Messages& messages_;
  Chooser chooser_;
  std::optional<Inputs> inputs_;
  ProgressLine* progress_ = nullptr;
  /// Questions of a line that are not yet asked.
  std::deque<Asked> read_;
  Waiting<Asked> waiting_;
  Output output_;
};

void check(const ChooseFlags& flags) {
  const bool here = !flags.choices.empty();
  if (here && !flags.inputs.files.empty()) {
    throw UsageError("--choice asks one question: leave out the files of questions");
  }
  if (here && flags.question.empty() && flags.context_file.empty()) {
    throw UsageError("--choice needs --question, --context-file, or both");
  }
  if (!here && (!flags.question.empty() || !flags.context_file.empty())) {
    throw UsageError("--question and --context-file need --choice, once for each answer");
  }
}

}  // namespace

void add_choose(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ChooseFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "choose",
       .description = "Choose the best of several answers to a question.",
       .details =
           "The model needs a head for multiple choice, which reads every answer apart, or for "
           "candidate scoring, which reads all of them together before the text. Each line of "
           "FILES is a JSON object with the text in context, the question in question and the "
           "answers in choices; or WikiHop's supports, query and candidates, also as its files "
           "have them: one list of objects on a line. --stride is for candidate scoring alone.",
       .examples = "longformer choose MODEL questions.jsonl --json\n"
                   "longformer choose MODEL wikihop.jsonl --stride 0\n"
                   "longformer choose MODEL --context-file novel.txt --question \"Who did it?\" "
                   "--choice \"The butler.\" --choice \"His wife.\" --truncate"});
  add_model(verb, flags->model);
  verb.add_option("FILES", flags->inputs.files, "questions, one on a line; - is stdin, the default")
      ->type_name("");
  flags->inputs.lines = true;
  flags->inputs.skips_blank_lines = true;
  verb.add_option("--context-file", flags->context_file, "the text that the question is about")
      ->type_name("FILE");
  verb.add_option("--question", flags->question, "the question")->type_name("TEXT");
  add_repeatable(verb, "--choice", flags->choices, "an answer; repeated for each");
  add_encoding(verb, flags->inputs.encoding);
  add_fields(verb, fields(flags->options));
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    check(*flags);
    action = [flags](Messages& messages) { ChooseRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
