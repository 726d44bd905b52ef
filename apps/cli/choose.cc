// longformer choose: the best of several answers to a question.
#include <fmt/format.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "document_stream.h"
#include "longformer/error.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "verbs.h"

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

using Asked = DocumentPart<ChoiceQuestion>;

/// The question of the command line is about one text, which may be empty.
InputOptions inputs_of(const ChooseFlags& flags) {
  if (flags.choices.empty()) return flags.inputs;
  InputOptions context;
  context.encoding() = flags.inputs.encoding();
  if (flags.context_file.empty()) {
    context.texts = {""};
  } else {
    context.files = {flags.context_file};
  }
  return context;
}

/// Reads the question of a JSON object; a fault becomes the document's error.
Asked parsed(Document document, const std::string& text) {
  Asked asked{std::move(document)};
  try {
    asked.input = parse_choice_question(text);
    asked.document.choices = asked.input.choices;
  } catch (const Error& error) {
    asked.document.error = error.what();
  }
  return asked;
}

/// Reads the question of a JSON object, or all of a list, as WikiHop's files are: each has the
/// number of its record for a line.
std::deque<Asked> parsed(Document document) {
  std::deque<Asked> all;
  if (document.text.empty()) return all;
  const std::string text = standard_json(std::exchange(document.text, {}));
  const auto value = nlohmann::json::parse(text, nullptr, false);
  const auto add = [&](bool is_object, const std::string& json) {
    Document one = document;
    if (is_object) one.id = json_member(json, "id");
    all.push_back(parsed(std::move(one), json));
    // The bytes of a list are read once.
    document.bytes = 0;
  };
  if (!value.is_array()) {
    add(value.is_object(), text);
    return all;
  }
  document.line = document.record = 0;
  for (const std::string_view object : json_elements(text)) {
    ++document.line;
    add(object.starts_with('{'), std::string(object));
  }
  return all;
}

class ChooseRun {
 public:
  ChooseRun(const ChooseFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        chooser_(Chooser::load(flags.model.encoder_folder(), flags.model.load_options(messages))),
        documents_(
            inputs_of(flags), flags.model, messages,
            {"best", "choice", "probability", "probabilities", "tokens", "truncated", "segments"}) {
  }

  void run() {
    documents_.stream_parts<ChoiceQuestion, ChoiceOutcome>(
        [this](Document document) { return questions_of(std::move(document)); },
        [this](const Chooser::Source& next, const Chooser::Sink& sink) {
          chooser_.choose(next, sink, flags_.options);
        },
        [this](const Document& document, const ChoiceOutcome& outcome) {
          say(document, outcome.answer);
          return outcome.answer.tokens;
        });
    documents_.results().finish();
  }

 private:
  std::deque<Asked> questions_of(Document document) const {
    if (flags_.choices.empty()) return parsed(std::move(document));
    Asked asked{std::move(document)};
    asked.input.context = std::exchange(asked.document.text, {});
    asked.input.question = flags_.question;
    asked.input.choices = asked.document.choices = flags_.choices;
    if (flags_.context_file.empty()) {
      asked.document.file = "--choice";
      asked.document.line = 0;
    }
    return {asked};
  }

  void say(const Document& document, const ChoiceAnswer& answer) {
    const std::string& text = document.choices[static_cast<std::size_t>(answer.best)];
    if (answer.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept {}", document.label(), answer.tokens,
                                 answer.tokens - answer.truncated));
    }
    const float probability = answer.probabilities[static_cast<std::size_t>(answer.best)];
    if (documents_.results().has_rows()) {
      JsonLine json = document.json().add_members(to_json(answer, document.choices));
      if (documents_.results().is_table()) json.add("probability", probability);
      documents_.results().add(json);
    } else {
      documents_.output().write(
          fmt::format("{}\t{}\t{:.4f}\n", document.field(), on_one_line(text), probability));
    }
  }

  const ChooseFlags& flags_;
  Messages& messages_;
  Chooser chooser_;
  DocumentStream documents_;
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
           "answers in choices; or WikiHop's supports, query and candidates. Objects may also go "
           "on over several lines, and a file may be one list of them. --stride is for candidate "
           "scoring alone.",
       .examples = "longformer choose MODEL questions.jsonl --json\n"
                   "longformer choose MODEL wikihop.jsonl --stride 0\n"
                   "longformer choose MODEL --context-file novel.txt --question \"Who did it?\" "
                   "--choice \"The butler.\" --choice \"His wife.\" --truncate"});
  add_model(verb, flags->model);
  verb.add_option("FILES", flags->inputs.files, "questions, one on a line; - is stdin, the default")
      ->type_name("");
  flags->inputs.lines = true;
  flags->inputs.are_json = true;
  verb.add_option("--context-file", flags->context_file, "the text that the question is about")
      ->type_name("FILE");
  verb.add_option("--question", flags->question, "the question")->type_name("TEXT");
  add_repeatable(verb, "--choice", flags->choices, "an answer; repeated for each");
  add_encoding(verb, flags->inputs.encoding());
  add_fields(verb, fields(flags->options));
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    check(*flags);
    action = [flags](Messages& messages) { ChooseRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
