// Questions over paragraphs, in the native half of the Python package.
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/tasks.h"
#include "model.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

/// Title and sentences.
using PythonParagraph = std::pair<std::string, std::vector<std::string>>;
/// paragraph, sentence (−1: the title), begin, end.
using PythonSpan = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
/// paragraph, sentence, logit.
using PythonEvidence = std::tuple<std::int64_t, std::int64_t, float>;
/// answer, type, score, logit, span, evidence, logits of paragraphs, truncated tokens, rows.
using PythonOutcome =
    std::tuple<std::string, std::string, float, float, std::optional<PythonSpan>,
               std::vector<PythonEvidence>, std::vector<float>, std::int64_t, std::int64_t>;

PythonOutcome outcome_of(MultiHopOutcome outcome) {
  std::optional<PythonSpan> span;
  if (outcome.span) {
    const ParagraphSpan& found = *outcome.span;
    span = {found.paragraph, found.sentence, found.characters.begin, found.characters.end};
  }
  std::vector<PythonEvidence> evidence;
  for (const Evidence& one : outcome.evidence) {
    evidence.emplace_back(one.paragraph, one.sentence, one.logit);
  }
  return {std::move(outcome.answer),
          std::move(outcome.type),
          outcome.score,
          outcome.logit,
          span,
          std::move(evidence),
          std::move(outcome.paragraph_logits),
          outcome.truncated,
          outcome.segments};
}

PythonOutcome answer_over_paragraphs(Loaded<MultiHopAnswerer>& answerer, std::string question,
                                     std::vector<PythonParagraph> paragraphs,
                                     const Options& given) {
  MultiHopQuestion asked = {.question = std::move(question), .paragraphs = {}};
  for (PythonParagraph& one : paragraphs) {
    asked.paragraphs.push_back({std::move(one.first), std::move(one.second)});
  }
  MultiHopAnswerOptions options;
  Keywords keywords("answer", given);
  take_fields(keywords, fields(options));
  keywords.finish();
  return outcome_of(answerer.call([&](const MultiHopAnswerer& one) {
    return one.answer({&asked, 1}, options)[0];
  }));
}

}  // namespace

void bind_multi_hop(nb::module_& module) {
  bind_task<MultiHopAnswerer>(module, "MultiHopAnswerer")
      .def("answer", &answer_over_paragraphs, "question"_a, "paragraphs"_a, "options"_a);
  module.def(
      "sentences", [](const std::string& text) { return paragraph_of("", text).sentences; },
      "text"_a);
}

}  // namespace longformer
