#include "tasks/multi_hop/multi_hop_decoding.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "text/boundaries.h"

namespace longformer::tasks {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// The logits of marks, and −∞ for those that were not read.
std::vector<float> spread(const std::vector<Index>& marks, std::span<const float>& logits) {
  std::vector<float> all;
  for (const Index mark : marks) {
    all.push_back(mark == kUnread ? kNever : logits.front());
    if (mark != kUnread) logits = logits.subspan(1);
  }
  return all;
}

const std::string& text_of(const MultiHopQuestion& question, const ReadText& text) {
  const Paragraph& paragraph = question.paragraphs[at(text.paragraph)];
  return text.sentence == kTitle ? paragraph.title : paragraph.sentences[at(text.sentence)];
}

std::optional<MultiHopSpan> best_span(const MultiHopQuestion& question,
                                      const MultiHopReading& reading, const MultiHopLogits& logits,
                                      const AnswerRules& rules) {
  std::optional<MultiHopSpan> best;
  for (const ReadText& text : reading.texts) {
    const std::string& whole = text_of(question, text);
    const auto of_text = [&](const std::vector<float>& all) {
      return std::span(all).subspan(at(text.first), at(text.read));
    };
    const SegmentLogits segment = {
        .range = {0, text.read}, .start = of_text(logits.starts), .end = of_text(logits.ends)};
    const auto offsets = std::span(text.offsets).first(at(text.read));
    const Answers found = best_answers({&segment, 1}, begins_inside_word(whole, offsets),
                                       {.top_k = 1, .max_tokens = rules.max_tokens});
    if (found.spans.empty() || (best && !(found.spans[0].logit > best->logit))) continue;
    const TokenRange tokens = found.spans[0].tokens;
    const std::vector<std::size_t> starts = character_starts(whole);
    const CharacterSpan characters = text::whole_graphemes(
        whole, starts, {offsets[at(tokens.begin)].begin, offsets[at(tokens.end - 1)].end});
    const std::size_t begin = starts[at(characters.begin)];
    best = {.paragraph = text.paragraph,
            .sentence = text.sentence,
            .characters = characters,
            .text = whole.substr(begin, starts[at(characters.end)] - begin),
            .logit = found.spans[0].logit};
  }
  return best;
}

/// The numbers of the largest values, ascending; earlier ones first among equals. −∞ is none.
std::vector<Index> largest(const std::vector<float>& values, Index count) {
  std::vector<Index> numbers(values.size());
  std::iota(numbers.begin(), numbers.end(), Index{0});
  std::erase_if(numbers, [&](Index i) { return values[at(i)] == kNever; });
  std::stable_sort(numbers.begin(), numbers.end(),
                   [&](Index a, Index b) { return values[at(a)] > values[at(b)]; });
  numbers.resize(std::min(numbers.size(), at(count)));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<EvidenceSentence> evidence_of(const std::vector<float>& paragraphs,
                                          const std::vector<std::vector<float>>& sentences,
                                          Index most) {
  const auto best_of = [](const std::vector<float>& logits) {
    return std::max_element(logits.begin(), logits.end());
  };
  std::vector<Index> chosen(paragraphs.size());
  std::iota(chosen.begin(), chosen.end(), Index{0});
  if (most > 0) {
    std::vector<float> values;
    for (std::size_t p = 0; p < paragraphs.size(); ++p) {
      const bool is_read = !sentences[p].empty() && paragraphs[p] != kNever;
      values.push_back(is_read ? paragraphs[p] + *best_of(sentences[p]) : kNever);
    }
    chosen = largest(values, most);
  }
  std::vector<EvidenceSentence> evidence;
  for (const Index p : chosen) {
    const std::vector<float>& logits = sentences[at(p)];
    const Index best = most > 0 ? best_of(logits) - logits.begin() : -1;
    for (Index s = 0; s < std::ssize(logits); ++s) {
      if (s == best || logits[at(s)] > 0) evidence.push_back({p, s, logits[at(s)]});
    }
  }
  return evidence;
}

}  // namespace

MultiHopDecision decide(const MultiHopQuestion& question, const MultiHopReading& reading,
                        const MultiHopLogits& logits, const AnswerRules& rules,
                        Index evidence_paragraphs) {
  MultiHopDecision decision;
  const auto type = std::max_element(logits.types.begin(), logits.types.end());
  decision.type = static_cast<AnswerType>(type - logits.types.begin());
  decision.span = best_span(question, reading, logits, rules);
  if (decision.type == AnswerType::span) {
    decision.answer = decision.span ? decision.span->text : std::string();
  } else {
    decision.answer = decision.type == AnswerType::yes ? "yes" : "no";
  }
  std::span<const float> of_paragraphs = logits.paragraphs, of_sentences = logits.sentences;
  decision.paragraphs = spread(reading.paragraphs, of_paragraphs);
  std::vector<std::vector<float>> sentences;
  for (const auto& marks : reading.sentences) sentences.push_back(spread(marks, of_sentences));
  decision.evidence = evidence_of(decision.paragraphs, sentences, evidence_paragraphs);
  return decision;
}

std::vector<SupportingFact> facts_of(const MultiHopQuestion& question,
                                     const std::vector<EvidenceSentence>& evidence) {
  std::vector<SupportingFact> facts;
  for (const EvidenceSentence& one : evidence) {
    facts.push_back({question.paragraphs[at(one.paragraph)].title, one.sentence});
  }
  return facts;
}

std::vector<Index> selected_paragraphs(const std::vector<float>& logits,
                                       const MultiHopOptions& options) {
  constexpr Index kFewest = 2;
  const auto above = std::count_if(logits.begin(), logits.end(), [&](float logit) {
    return static_cast<double>(logit) > options.paragraph_threshold;
  });
  const Index count = std::max(kFewest, std::min<Index>(above, options.keep_paragraphs));
  std::vector<Index> chosen = largest(logits, count);
  // Paragraphs that were not read come after all others.
  for (Index p = 0; p < std::ssize(logits) && std::ssize(chosen) < kFewest; ++p) {
    if (logits[at(p)] == kNever) chosen.push_back(p);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace longformer::tasks
