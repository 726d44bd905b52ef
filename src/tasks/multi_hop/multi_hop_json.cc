// Results over paragraphs as they are shown.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "longformer/report.h"
#include "longformer/tasks.h"
#include "longformer/text.h"

namespace longformer {
namespace {

constexpr const char* kBlanks = " \t\r\n";

bool is_blank(char c) { return std::string_view(kBlanks).find(c) != std::string_view::npos; }

std::int64_t characters_of(const std::string& text) {
  return static_cast<std::int64_t>(character_starts(text).size()) - 1;
}

/// Place of a sentence in the text of its paragraph, in characters.
std::int64_t begin_of(const Paragraph& paragraph, std::int64_t sentence, bool is_joined) {
  std::int64_t place = 0;
  char last = ' ';
  for (std::int64_t i = 0;; ++i) {
    const std::string& text = paragraph.sentences[static_cast<std::size_t>(i)];
    const bool has_blank = text.empty() || is_blank(last) || is_blank(text.front());
    if (!is_joined && !has_blank) ++place;
    if (i == sentence) return place;
    place += characters_of(text);
    if (!text.empty()) last = text.back();
  }
}

JsonLine name_of(const MultiHopQuestion& question, std::size_t paragraph,
                 const MultiHopForm& form) {
  JsonLine json;
  if (form.names.empty()) return json.add("title", question.paragraphs[paragraph].title);
  return json.add_members(form.names[paragraph]);
}

JsonLine line_of(const MultiHopQuestion& question, const ParagraphSpan& span,
                 const MultiHopForm& form) {
  JsonLine json = name_of(question, static_cast<std::size_t>(span.paragraph), form);
  json.add("paragraph", span.paragraph);
  if (span.sentence < 0) {
    json.add_null("sentence");
  } else {
    json.add("sentence", span.sentence);
  }
  const ParagraphPart part = part_of(question, span, form);
  return json.add("begin", part.span.begin).add("end", part.span.end).add("text", part.text);
}

}  // namespace

float Evidence::probability() const { return 1 / (1 + std::exp(-logit)); }

ParagraphPart part_of(const MultiHopQuestion& question, const ParagraphSpan& span,
                      const MultiHopForm& form) {
  const Paragraph& paragraph = question.paragraphs[static_cast<std::size_t>(span.paragraph)];
  const bool is_title = span.sentence < 0;
  const std::string& whole =
      is_title ? paragraph.title : paragraph.sentences[static_cast<std::size_t>(span.sentence)];
  const std::int64_t shift = is_title ? 0 : begin_of(paragraph, span.sentence, form.is_joined);
  const auto starts = character_starts(whole);
  const std::size_t begin = starts[static_cast<std::size_t>(span.characters.begin)];
  const std::size_t end = starts[static_cast<std::size_t>(span.characters.end)];
  return {{span.characters.begin + shift, span.characters.end + shift},
          whole.substr(begin, end - begin)};
}

ParagraphSpan span_of(const MultiHopQuestion& question, const Evidence& evidence) {
  const std::string& text = question.paragraphs[static_cast<std::size_t>(evidence.paragraph)]
                                .sentences[static_cast<std::size_t>(evidence.sentence)];
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::size_t behind = text.find_last_not_of(kBlanks) + 1;
  return {evidence.paragraph,
          evidence.sentence,
          {characters_of(text.substr(0, begin)), characters_of(text.substr(0, behind))}};
}

std::string to_json(const MultiHopOutcome& result, const MultiHopQuestion& question,
                    const MultiHopForm& form) {
  JsonLine json;
  json.add("tokens", result.tokens).add("truncated", result.truncated);
  json.add("segments", result.segments).add("answer", result.answer);
  json.add("type", result.type).add("score", result.score).add("logit", result.logit);
  if (result.span) {
    json.add_json("span", line_of(question, *result.span, form).object());
  } else {
    json.add_null("span");
  }
  std::vector<JsonLine> evidence, paragraphs;
  for (const Evidence& one : result.evidence) {
    JsonLine& row = evidence.emplace_back(line_of(question, span_of(question, one), form));
    row.add("score", one.probability()).add("logit", one.logit);
  }
  for (std::size_t p = 0; p < result.paragraph_logits.size(); ++p) {
    JsonLine& row = paragraphs.emplace_back(name_of(question, p, form));
    const float logit = result.paragraph_logits[p];
    std::isfinite(logit) ? row.add("logit", logit) : row.add_null("logit");
  }
  json.add_objects("evidence", evidence).add_objects("paragraphs", paragraphs);
  return json.object();
}

}  // namespace longformer
