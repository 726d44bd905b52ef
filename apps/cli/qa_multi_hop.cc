#include "qa_multi_hop.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "advice.h"
#include "longformer/error.h"
#include "output.h"
#include "results.h"

namespace longformer::cli {

namespace {

/// Question, its place in the input, and the names of its paragraphs in results.
struct Asked {
  /// The file with the record, where it is one of a data set.
  Document record;
  MultiHopQuestion question;
  /// [paragraphs]
  std::vector<std::string> labels;
  MultiHopForm form;
};

class MultiHopRun {
 public:
  MultiHopRun(const MultiHopQuestions& asked, Messages& messages)
      : asked_(asked),
        messages_(messages),
        answerer_(MultiHopAnswerer::load(asked.model.token_model_folder(),
                                         asked.model.load_options(messages))),
        results_(asked.model, columns_of_documents(
                                  {"question", "answer", "score", "type", "span", "evidence"})) {}

  void run() {
    Inputs inputs(asked_.inputs, messages_);
    asked_.questions.empty() ? answer_records(inputs) : answer_about_documents(inputs);
    results_.finish();
  }

 private:
  static bool next(Inputs& inputs, Document& document) {
    if (!inputs.next(document)) return false;
    if (!document.error.empty()) {
      throw Error(fmt::format("{}: {}", document.label(), document.error));
    }
    return true;
  }

  /// All documents are paragraphs of every question.
  void answer_about_documents(Inputs& inputs) {
    Asked asked;
    asked.form.is_joined = true;
    Document document;
    while (next(inputs, document)) {
      std::string title = document.title;
      if (title.empty() && document.file != "-" && document.file != "--text") {
        title = std::filesystem::path(document.file).stem().string();
      }
      asked.form.names.push_back(document.json().add("title", title).object());
      asked.labels.push_back(document.field());
      asked.question.paragraphs.push_back(paragraph_of(std::move(title), document.text));
    }
    for (const std::string& question : asked_.questions) {
      asked.question.question = question;
      answer(asked, "question");
    }
  }

  /// Every record has its question and paragraphs.
  void answer_records(Inputs& inputs) {
    Document document;
    while (next(inputs, document)) {
      for (NamedMultiHopQuestion& one :
           parse_multi_hop_questions(document.text, document.label())) {
        Asked asked;
        asked.record.file = document.file;
        asked.record.line = one.line;
        asked.record.record = one.record;
        asked.record.id = one.id_json;
        asked.question = std::move(one.question);
        for (const Paragraph& paragraph : asked.question.paragraphs) {
          asked.labels.push_back(on_one_line(paragraph.title));
        }
        answer(asked, asked.record.label());
      }
    }
  }

  void answer(const Asked& asked, const std::string& name) {
    const MultiHopOutcome outcome = answerer_.answer(asked.question, asked_.options);
    if (!outcome.error.empty()) {
      messages_.error(name + ": " + advised(outcome.error, outcome.remedies));
      if (results_.has_rows()) results_.add(head_of(asked).add("error", outcome.error));
      return;
    }
    if (outcome.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept the first {}", name, outcome.tokens,
                                 outcome.tokens - outcome.truncated));
    } else if (outcome.segments > 1) {
      messages_.note(
          fmt::format("{}: {} tokens, read in {} rows", name, outcome.tokens, outcome.segments));
    }
    results_.has_rows() ? write_json(asked, outcome) : write_text(asked, outcome);
    results_.flush();
  }

  void write_text(const Asked& asked, const MultiHopOutcome& outcome) {
    const auto row = [&](const char* kind, const std::string& label, float score,
                         const ParagraphPart& part) {
      results_.output().write(fmt::format("{}\t{}\t{}\t{:.4f}\t{}\t{}\t{}\n", kind, label,
                                          on_one_line(asked.question.question), score,
                                          part.span.begin, part.span.end, on_one_line(part.text)));
    };
    const auto row_of = [&](const char* kind, const ParagraphSpan& span, float score) {
      row(kind, asked.labels[static_cast<std::size_t>(span.paragraph)], score,
          part_of(asked.question, span, asked.form));
    };
    if (outcome.span) {
      row_of("answer", *outcome.span, outcome.score);
    } else {
      row("answer", "", outcome.score, {{}, outcome.answer});
    }
    for (const Evidence& one : outcome.evidence) {
      row_of("evidence", span_of(asked.question, one), one.probability());
    }
  }

  static JsonLine head_of(const Asked& asked) {
    JsonLine json;
    if (!asked.record.file.empty()) {
      json.add_members(asked.record.json().object());
    }
    return json.add("question", asked.question.question);
  }

  void write_json(const Asked& asked, const MultiHopOutcome& outcome) {
    const std::string result = to_json(outcome, asked.question, asked.form);
    results_.add(head_of(asked).add_members(result));
  }

  const MultiHopQuestions& asked_;
  Messages& messages_;
  MultiHopAnswerer answerer_;
  Results results_;
};

}  // namespace

void answer_multi_hop(const MultiHopQuestions& asked, Messages& messages) {
  MultiHopRun(asked, messages).run();
}

}  // namespace longformer::cli
