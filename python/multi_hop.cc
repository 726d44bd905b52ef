// Questions over paragraphs, in the native half of the Python package.
#include "longformer/multi_hop.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/error.h"
#include "longformer/hub.h"

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

TooLong too_long_of(const std::string& name) {
  if (name == "refuse") return TooLong::refuse;
  if (name == "truncate") return TooLong::truncate;
  if (name == "split") return TooLong::split;
  throw Error("too_long: expected refuse, truncate or split, found " + name);
}

/// Takes one call at a time; Python threads take turns here, without the GIL.
class PythonMultiHopAnswerer {
 public:
  PythonMultiHopAnswerer(const std::string& folder, std::string dtype, int threads)
      : answerer_(load(
            folder, {.dtype = std::move(dtype), .threads = threads, .note = notes_.collector()})) {
    Notes::warn(notes_.take());
  }

  PythonOutcome answer(std::string question, std::vector<PythonParagraph> paragraphs,
                       std::int64_t max_answer_tokens, std::int64_t evidence_paragraphs,
                       const std::string& too_long) {
    MultiHopQuestion asked = {.question = std::move(question), .paragraphs = {}};
    for (PythonParagraph& one : paragraphs) {
      asked.paragraphs.push_back({std::move(one.first), std::move(one.second)});
    }
    MultiHopAnswerOptions options;
    options.max_answer_tokens = max_answer_tokens;
    options.evidence_paragraphs = evidence_paragraphs;
    options.too_long = too_long_of(too_long);
    nb::gil_scoped_release release;
    std::lock_guard lock(mutex_);
    return outcome_of(std::move(answerer_.answer({&asked, 1}, options)[0]));
  }

 private:
  static MultiHopAnswerer load(const std::string& folder, const LoadOptions& options) {
    nb::gil_scoped_release release;
    return MultiHopAnswerer::load(find_model(folder), options);
  }

  Notes notes_;
  MultiHopAnswerer answerer_;
  std::mutex mutex_;
};

}  // namespace

void bind_multi_hop(nb::module_& module) {
  nb::class_<PythonMultiHopAnswerer>(module, "MultiHopAnswerer")
      .def(
          "__init__",
          [](PythonMultiHopAnswerer* self, const std::string& folder, std::string dtype,
             int threads) { new (self) PythonMultiHopAnswerer(folder, std::move(dtype), threads); },
          "folder"_a, "dtype"_a, "threads"_a)
      .def("answer", &PythonMultiHopAnswerer::answer, "question"_a, "paragraphs"_a,
           "max_answer_tokens"_a, "evidence_paragraphs"_a, "too_long"_a);
  module.def(
      "sentences", [](const std::string& text) { return paragraph_of("", text).sentences; },
      "text"_a);
}

}  // namespace longformer
