#include "qa_multi_hop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "advice.h"
#include "longformer/error.h"
#include "output.h"

namespace longformer::cli {

namespace {

constexpr const char* kBlanks = " \t\r\n";

std::int64_t characters_of(const std::string& text) {
  return static_cast<std::int64_t>(character_starts(text).size()) - 1;
}

bool is_blank(char c) { return std::string_view(kBlanks).find(c) != std::string_view::npos; }

/// Begins of the sentences of a paragraph in its text, in characters. Sentences follow each other
/// directly; those of data sets are separated by a blank if they have none themselves.
std::vector<std::int64_t> begins_of(const Paragraph& paragraph, bool is_document) {
  std::vector<std::int64_t> begins;
  std::int64_t at = 0;
  std::string before;
  for (const std::string& sentence : paragraph.sentences) {
    const bool has_blank =
        before.empty() || sentence.empty() || is_blank(before.back()) || is_blank(sentence.front());
    if (!is_document && !has_blank) ++at;
    begins.push_back(at);
    at += characters_of(sentence);
    if (!sentence.empty()) before = sentence;
  }
  return begins;
}

/// Question, its place in the input, and the names of its paragraphs in results.
struct Asked {
  /// The file with the record, where it is one of a data set.
  Document record;
  MultiHopQuestion question;
  /// [paragraphs]
  std::vector<std::string> labels;
  std::vector<JsonLine> names;
  std::vector<std::vector<std::int64_t>> begins;
};

/// A part of a paragraph as results show it.
struct Shown {
  std::int64_t begin = 0, end = 0;
  std::string text;
};

Shown shown(const Asked& asked, const ParagraphSpan& span) {
  const auto p = static_cast<std::size_t>(span.paragraph);
  const Paragraph& paragraph = asked.question.paragraphs[p];
  const auto s = static_cast<std::size_t>(std::max<std::int64_t>(0, span.sentence));
  const bool is_title = span.sentence < 0;
  const std::string& whole = is_title ? paragraph.title : paragraph.sentences[s];
  const std::int64_t shift = is_title ? 0 : asked.begins[p][s];
  const auto starts = character_starts(whole);
  const std::size_t begin = starts[static_cast<std::size_t>(span.characters.begin)];
  const std::size_t end = starts[static_cast<std::size_t>(span.characters.end)];
  return {span.characters.begin + shift, span.characters.end + shift,
          whole.substr(begin, end - begin)};
}

/// A sentence without the blanks around it.
ParagraphSpan trimmed(const Asked& asked, const Evidence& evidence) {
  const std::string& text = asked.question.paragraphs[static_cast<std::size_t>(evidence.paragraph)]
                                .sentences[static_cast<std::size_t>(evidence.sentence)];
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::size_t behind = text.find_last_not_of(kBlanks) + 1;
  return {evidence.paragraph,
          evidence.sentence,
          {characters_of(text.substr(0, begin)), characters_of(text.substr(0, behind))}};
}

float probability_of(float logit) { return 1 / (1 + std::exp(-logit)); }

class MultiHopRun {
 public:
  MultiHopRun(const MultiHopQuestions& asked, Messages& messages)
      : asked_(asked),
        messages_(messages),
        answerer_(MultiHopAnswerer::load(asked.model.token_model_folder(),
                                         asked.model.load_options(messages))) {}

  void run() {
    Inputs inputs(asked_.inputs, messages_);
    asked_.questions.empty() ? answer_records(inputs) : answer_about_documents(inputs);
    output_.finish();
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
    Document document;
    while (next(inputs, document)) {
      std::string title = document.title;
      if (title.empty() && document.file != "-" && document.file != "--text") {
        title = std::filesystem::path(document.file).stem().string();
      }
      asked.names.push_back(document.json());
      asked.names.back().add("title", title);
      asked.labels.push_back(document.field());
      asked.question.paragraphs.push_back(paragraph_of(std::move(title), document.text));
      asked.begins.push_back(begins_of(asked.question.paragraphs.back(), true));
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
        asked.record.id = one.id;
        asked.question = std::move(one.question);
        for (const Paragraph& paragraph : asked.question.paragraphs) {
          asked.names.emplace_back().add("title", paragraph.title);
          asked.labels.push_back(on_one_line(paragraph.title));
          asked.begins.push_back(begins_of(paragraph, false));
        }
        answer(asked, asked.record.label());
      }
    }
  }

  void answer(const Asked& asked, const std::string& name) {
    const MultiHopOutcome outcome = answerer_.answer(asked.question, asked_.options);
    if (!outcome.error.empty()) {
      messages_.error(name + ": " + advised(outcome.error, outcome.remedies));
      if (asked_.model.json) output_.write(head_of(asked).add("error", outcome.error).line());
      return;
    }
    if (outcome.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept the first {}", name, outcome.tokens,
                                 outcome.tokens - outcome.truncated));
    } else if (outcome.segments > 1) {
      messages_.note(
          fmt::format("{}: {} tokens, read in {} rows", name, outcome.tokens, outcome.segments));
    }
    asked_.model.json ? write_json(asked, outcome) : write_text(asked, outcome);
    output_.flush();
  }

  void write_text(const Asked& asked, const MultiHopOutcome& outcome) {
    const auto row = [&](const char* kind, const std::string& label, float score,
                         const Shown& part) {
      output_.write(fmt::format("{}\t{}\t{}\t{:.4f}\t{}\t{}\t{}\n", kind, label,
                                on_one_line(asked.question.question), score, part.begin, part.end,
                                on_one_line(part.text)));
    };
    if (outcome.span) {
      row("answer", asked.labels[static_cast<std::size_t>(outcome.span->paragraph)], outcome.score,
          shown(asked, *outcome.span));
    } else {
      row("answer", "", outcome.score, {0, 0, outcome.answer});
    }
    for (const Evidence& one : outcome.evidence) {
      row("evidence", asked.labels[static_cast<std::size_t>(one.paragraph)],
          probability_of(one.logit), shown(asked, trimmed(asked, one)));
    }
  }

  static JsonLine head_of(const Asked& asked) {
    JsonLine json;
    if (!asked.record.file.empty()) {
      json.add("file", asked.record.file).add("line", asked.record.line);
      json.add("id", asked.record.id);
    }
    return json.add("question", asked.question.question);
  }

  /// File or title of the paragraph, the number of the sentence, and what stands there.
  static JsonLine json_of(const Asked& asked, const ParagraphSpan& span) {
    JsonLine row = asked.names[static_cast<std::size_t>(span.paragraph)];
    row.add("paragraph", span.paragraph);
    if (span.sentence < 0) {
      row.add_null("sentence");
    } else {
      row.add("sentence", span.sentence);
    }
    const Shown part = shown(asked, span);
    return row.add("begin", part.begin).add("end", part.end).add("text", part.text);
  }

  void write_json(const Asked& asked, const MultiHopOutcome& outcome) {
    JsonLine json = head_of(asked);
    json.add("tokens", outcome.tokens).add("truncated", outcome.truncated);
    json.add("segments", outcome.segments).add("answer", outcome.answer);
    json.add("type", outcome.type).add("score", outcome.score).add("logit", outcome.logit);
    if (outcome.span) {
      json.add_json("span", json_of(asked, *outcome.span).object());
    } else {
      json.add_null("span");
    }
    std::vector<JsonLine> evidence, paragraphs;
    for (const Evidence& one : outcome.evidence) {
      JsonLine& row = evidence.emplace_back(json_of(asked, trimmed(asked, one)));
      row.add("score", probability_of(one.logit)).add("logit", one.logit);
    }
    for (std::size_t p = 0; p < outcome.paragraph_logits.size(); ++p) {
      JsonLine& row = paragraphs.emplace_back(asked.names[p]);
      const float logit = outcome.paragraph_logits[p];
      std::isfinite(logit) ? row.add("logit", logit) : row.add_null("logit");
    }
    json.add_objects("evidence", evidence).add_objects("paragraphs", paragraphs);
    output_.write(json.line());
  }

  const MultiHopQuestions& asked_;
  Messages& messages_;
  MultiHopAnswerer answerer_;
  Output output_;
};

}  // namespace

void answer_multi_hop(const MultiHopQuestions& asked, Messages& messages) {
  MultiHopRun(asked, messages).run();
}

}  // namespace longformer::cli
