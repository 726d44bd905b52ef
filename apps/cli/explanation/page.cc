#include "explanation/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "html.h"
#include "output.h"
#include "page_text.h"

namespace longformer::cli {
namespace {

/// {"begin": […], "end": […], "value": […]}
template <typename Part, typename Span, typename Value>
std::string level_of(const std::vector<Part>& parts, const Span& span_of, const Value& value_of) {
  std::vector<std::int64_t> begins, ends;
  std::vector<float> values;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const CharacterSpan span = span_of(i);
    begins.push_back(span.begin);
    ends.push_back(span.end);
    values.push_back(value_of(i));
  }
  JsonLine json;
  json.add("begin", std::span<const std::int64_t>(begins));
  json.add("end", std::span<const std::int64_t>(ends));
  json.add("value", std::span<const float>(values));
  return json.object();
}

std::string level_of(const std::vector<AttributedSpan>& parts) {
  return level_of(
      parts, [&](std::size_t i) { return parts[i].span; },
      [&](std::size_t i) { return static_cast<float>(parts[i].value); });
}

/// Sentences about the method and how good its figures are.
std::string about_method(const Explanation& explanation) {
  const std::string baseline =
      explanation.baseline == "zero" ? "zeros" : "the " + explanation.baseline + " token";
  switch (explanation.method) {
    case ExplainMethod::gradient:
      return fmt::format(
          "Gradient × (word embedding − {}): how the logit of the class would change, to first "
          "order, if the word embedding became that of {}.",
          baseline, baseline);
    case ExplainMethod::integrated:
      return fmt::format(
          "Integrated gradients from {} in {}. All values add up to {:.4f}; the logit is {:.4f} "
          "above that of the baseline, so they are {:.4f} off{}.",
          baseline, counted(explanation.steps, "step"), explanation.sum,
          explanation.logit - explanation.baseline_logit, explanation.error,
          explanation.is_complete ? "" : ", which is more than the tolerance: take more --steps");
    case ExplainMethod::occlusion:
      return fmt::format(
          "Occlusion: each sentence is {}, and its value is by how much the logit "
          "of the class falls.",
          explanation.baseline == "mask" ? "replaced by masks" : "left out");
  }
  return {};
}

std::string about_document(const ExplainedText& explained) {
  const Classification& found = explained.explanation.classification;
  const std::filesystem::path folder(explained.model);
  std::string text = fmt::format(
      "{} · {}", (folder.has_filename() ? folder : folder.parent_path()).filename().string(),
      counted(found.tokens, "token"));
  if (found.truncated > 0) text += fmt::format(" ({} more were cut off)", grouped(found.truncated));
  if (found.segments > 1) text += fmt::format(" · {}", counted(found.segments, "segment"));
  return text;
}

}  // namespace

std::string explanation_page(const ExplainedText& explained) {
  const Explanation& explanation = explained.explanation;
  JsonLine json;
  json.add("title", fmt::format("Why {}? {}", explanation.label, explained.document.label()));
  json.add("label", explanation.label).add("file", explained.document.label());
  json.add("about", about_document(explained)).add("method", about_method(explanation));
  std::vector<JsonLine> classes;
  for (std::size_t i = 0; i < explanation.classification.scores.size(); ++i) {
    const ClassScore& one = explanation.classification.scores[i];
    classes.emplace_back().add("label", one.label).add("score", one.score);
  }
  json.add_objects("classes", classes);
  json.add("logit", explanation.logit).add("score", explanation.score);
  json.add("text", explained.document.text);
  JsonLine levels;
  if (explanation.method != ExplainMethod::occlusion) {
    levels.add_json("words", level_of(explanation.words));
    levels.add_json("tokens",
                    level_of(
                        explanation.offsets, [&](std::size_t i) { return explanation.offsets[i]; },
                        [&](std::size_t i) { return explanation.values[i]; }));
  }
  levels.add_json("sentences", level_of(explanation.sentences));
  json.add_json("levels", levels.object());
  return filled_page(kExplanationPage, "Why " + explanation.label, json.object());
}

}  // namespace longformer::cli
