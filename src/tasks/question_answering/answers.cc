#include "tasks/question_answering/answers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "text/boundaries.h"

namespace longformer::tasks {
namespace {

/// log Σ exp over the values of all owned tokens and one more.
class LogSum {
 public:
  explicit LogSum(float first) : highest_(first), sum_(1) {}
  void add(float value) {
    const auto x = static_cast<double>(value);
    if (x > highest_) {
      sum_ = sum_ * std::exp(highest_ - x) + 1;
      highest_ = x;
    } else {
      sum_ += std::exp(x - highest_);
    }
  }
  double value() const { return highest_ + std::log(sum_); }

 private:
  double highest_;
  double sum_;
};

/// Spans of a document with the logits of the segments that own their middle tokens.
class Candidates {
 public:
  Candidates(std::span<const SegmentLogits> segments, Index max_tokens)
      : segments_(segments), max_tokens_(max_tokens), tokens_(segments.back().range.end) {
    std::vector<TokenRange> ranges;
    for (const SegmentLogits& segment : segments) ranges.push_back(segment.range);
    owned_ = owned_tokens(ranges, tokens_);
  }

  std::span<const TokenRange> owned() const { return owned_; }

  /// The best span that has no token in the taken ranges; the first one among equals.
  std::optional<AnswerSpan> best(std::span<const TokenRange> taken) const {
    std::optional<AnswerSpan> best;
    // A span that begins in the half of its length before what a segment owns has its middle there.
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const Index first = std::max(segments_[s].range.begin, owned_[s].begin - max_tokens_ / 2);
      for (Index begin = first; begin < owned_[s].end; ++begin) {
        consider(s, begin, free_until(begin, taken), best);
      }
    }
    return best;
  }

 private:
  /// The end of the free tokens from `begin` on: the next taken one, or `begin` itself.
  Index free_until(Index begin, std::span<const TokenRange> taken) const {
    Index end = std::min(begin + max_tokens_, tokens_);
    for (const TokenRange& range : taken) {
      if (range.end <= begin || range.begin >= end) continue;
      end = std::max(begin, range.begin);
    }
    return end;
  }

  void consider(std::size_t s, Index begin, Index limit, std::optional<AnswerSpan>& best) const {
    const SegmentLogits& segment = segments_[s];
    const float start = segment.start[at(begin - segment.range.begin)];
    for (Index last = begin; last < std::min(limit, segment.range.end); ++last) {
      const Index middle = (begin + last) / 2;
      if (middle < owned_[s].begin || middle >= owned_[s].end) continue;
      const float logit = start + segment.end[at(last - segment.range.begin)];
      if (!best || logit > best->logit) best = AnswerSpan{{begin, last + 1}, 0, logit};
    }
  }

  std::span<const SegmentLogits> segments_;
  Index max_tokens_;
  Index tokens_;
  std::vector<TokenRange> owned_;
};

TokenRange widened(TokenRange span, std::span<const std::uint8_t> inside_word) {
  while (inside_word[at(span.begin)] != 0) --span.begin;
  while (at(span.end) < inside_word.size() && inside_word[at(span.end)] != 0) ++span.end;
  return span;
}

}  // namespace

Answers best_answers(std::span<const SegmentLogits> segments,
                     std::span<const std::uint8_t> inside_word, const AnswerRules& rules) {
  const Candidates candidates(segments, rules.max_tokens);
  const auto& least = *std::min_element(
      segments.begin(), segments.end(), [](const SegmentLogits& a, const SegmentLogits& b) {
        return a.no_answer_start + a.no_answer_end < b.no_answer_start + b.no_answer_end;
      });
  LogSum starts(least.no_answer_start), ends(least.no_answer_end);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const TokenRange owned = candidates.owned()[s];
    for (Index token = owned.begin; token < owned.end; ++token) {
      starts.add(segments[s].start[at(token - segments[s].range.begin)]);
      ends.add(segments[s].end[at(token - segments[s].range.begin)]);
    }
  }
  const double total = starts.value() + ends.value();
  const auto scored = [total](AnswerSpan span) {
    span.score = static_cast<float>(std::exp(static_cast<double>(span.logit) - total));
    return span;
  };
  Answers answers;
  answers.none = scored({{}, 0, least.no_answer_start + least.no_answer_end});
  std::vector<TokenRange> taken;
  while (static_cast<Index>(taken.size()) < rules.top_k) {
    auto span = candidates.best(taken);
    if (!span) break;
    span->tokens = widened(span->tokens, inside_word);
    taken.push_back(span->tokens);
    answers.spans.push_back(scored(*span));
  }
  return answers;
}

std::optional<AnswerSpan> best_of_rows(std::span<const SegmentLogits> rows,
                                       std::span<const std::uint8_t> inside_word,
                                       Index max_tokens) {
  std::optional<AnswerSpan> best;
  const auto is_better = [&](float logit, TokenRange tokens) {
    if (!best || logit != best->logit) return !best || logit > best->logit;
    return tokens.begin != best->tokens.begin ? tokens.begin < best->tokens.begin
                                              : tokens.end < best->tokens.end;
  };
  for (const SegmentLogits& row : rows) {
    for (Index first = 0; first < row.range.size(); ++first) {
      const Index limit = std::min(row.range.size(), first + max_tokens);
      for (Index last = first; last < limit; ++last) {
        const TokenRange tokens = {row.range.begin + first, row.range.begin + last + 1};
        const float logit = row.start[at(first)] + row.end[at(last)];
        if (is_better(logit, tokens)) best = AnswerSpan{tokens, 0, logit};
      }
    }
  }
  if (best) best->tokens = widened(best->tokens, inside_word.first(at(rows.back().range.end)));
  return best;
}

std::vector<std::uint8_t> begins_inside_word(std::string_view text,
                                             std::span<const CharacterSpan> offsets) {
  const std::vector<text::Boundary> boundaries = text::boundaries(text);
  std::vector<std::uint8_t> result;
  for (const CharacterSpan& span : offsets) {
    // Characters that the tokenizer left out may lie between two tokens.
    const std::int64_t behind = result.empty() ? 0 : offsets[result.size() - 1].end;
    bool inside = !result.empty();
    for (std::int64_t i = std::min(behind, span.begin); i <= span.begin; ++i) {
      inside = inside && boundaries[at(i)] <= text::Boundary::inside_word;
    }
    result.push_back(inside || span.begin < behind ? 1 : 0);
  }
  return result;
}

std::optional<TokenRange> answer_tokens(std::span<const CharacterSpan> offsets, TokenRange range,
                                        CharacterSpan answer) {
  const auto begin = offsets.begin() + range.begin;
  const auto end = offsets.begin() + range.end;
  const auto first = std::find_if(
      begin, end, [&](const CharacterSpan& token) { return token.end > answer.begin; });
  if (first == end || first->begin >= answer.end) return std::nullopt;
  const auto behind = std::find_if(
      first, end, [&](const CharacterSpan& token) { return token.begin >= answer.end; });
  // An answer that goes on behind the range or before it has tokens outside.
  const auto outside = [&](Index token) {
    const CharacterSpan& span = offsets[at(token)];
    return span.begin < answer.end && span.end > answer.begin;
  };
  if (range.begin > 0 && first == begin && outside(range.begin - 1)) return std::nullopt;
  const auto count = static_cast<Index>(offsets.size());
  if (behind == end && range.end < count && outside(range.end)) return std::nullopt;
  return TokenRange{first - offsets.begin(), behind - offsets.begin()};
}

}  // namespace longformer::tasks
