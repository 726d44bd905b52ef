#include "engine/reading/passages.h"

#include <algorithm>

#include "core/error.h"
#include "text/boundaries.h"
#include "text/unicode.h"

namespace longformer::engine {
namespace {

using text::Boundary;

/// The boundaries between the tokens of a text.
class TokenBoundaries {
 public:
  TokenBoundaries(std::string_view text, std::span<const CharacterSpan> offsets)
      : starts_(character_starts(text)), text_(text), offsets_(offsets) {
    if (offsets.empty()) return;
    first_ = offsets.front().begin;
    // A row of a long document has few of its characters.
    boundaries_ = text::boundaries(between(first_, std::max(first_, offsets.back().end)));
  }

  /// The best one between token − 1 and token, where a tokenizer may have left out characters.
  Boundary before(Index token) const {
    const CharacterSpan& next = offsets_[at(token)];
    const std::int64_t behind = offsets_[at(token - 1)].end;
    // Tokens of a few bytes each share a character.
    if (next.begin < behind) return Boundary::inside_grapheme;
    Boundary best = boundary(behind);
    // A token may begin with the blank before its word. One that is a blank begins nothing.
    std::int64_t last = next.begin - (next.begin == next.end ? 1 : 0);
    while (last + 1 < next.end && is_blank(last)) ++last;
    for (std::int64_t i = behind + 1; i <= last; ++i) best = std::max(best, boundary(i));
    return best;
  }

 private:
  Boundary boundary(std::int64_t character) const { return boundaries_[at(character - first_)]; }

  std::string_view between(std::int64_t begin, std::int64_t end) const {
    return text_.substr(starts_[at(begin)], starts_[at(end)] - starts_[at(begin)]);
  }

  bool is_blank(std::int64_t character) const {
    const char32_t value = text::decode_character(text_, starts_[at(character)]).value;
    return (text::character_flags(value) & text::CharacterFlags::whitespace) != 0;
  }

  std::vector<std::size_t> starts_;
  std::string_view text_;
  std::span<const CharacterSpan> offsets_;
  std::int64_t first_ = 0;
  std::vector<Boundary> boundaries_;
};

/// The end of a passage that may have `limit` tokens from `begin` on, where its last third lies
/// inside a word: before the word where that fits in a passage, else a grapheme.
Index end_before_word(const TokenBoundaries& boundaries, Index begin, Index limit, Index total) {
  Index first = begin + limit;
  while (first > begin && boundaries.before(first) <= Boundary::inside_word) --first;
  Index behind = begin + limit;
  while (behind < std::min(total, first + limit + 1) &&
         boundaries.before(behind) <= Boundary::inside_word) {
    ++behind;
  }
  if (first > begin && behind - first <= limit) return first;
  Index end = begin + limit;
  while (end > begin + 1 && boundaries.before(end) == Boundary::inside_grapheme) --end;
  return boundaries.before(end) == Boundary::inside_grapheme ? begin + limit : end;
}

/// End of a passage that starts at `begin`: the latest of the best boundaries in its last third.
Index passage_end(const TokenBoundaries& boundaries, Index begin, Index limit, Index total) {
  if (begin + limit >= total) return total;
  Index best = begin + limit;
  Boundary quality = boundaries.before(best);
  const Index earliest = begin + std::max<Index>(1, limit - limit / 3);
  for (Index end = best - 1; end >= earliest && quality != Boundary::paragraph; --end) {
    const Boundary here = boundaries.before(end);
    if (here > quality) {
      quality = here;
      best = end;
    }
  }
  if (quality > Boundary::inside_word) return best;
  return end_before_word(boundaries, begin, limit, total);
}

/// The first token, and those behind a boundary that is at least so good.
std::vector<Index> starts_at(std::string_view text, std::span<const CharacterSpan> offsets,
                             Boundary least) {
  const TokenBoundaries boundaries(text, offsets);
  std::vector<Index> starts;
  for (Index token = 0; token < static_cast<Index>(offsets.size()); ++token) {
    if (token == 0 || boundaries.before(token) >= least) starts.push_back(token);
  }
  return starts;
}

}  // namespace

std::vector<TokenRange> cut_passages(std::string_view text, std::span<const CharacterSpan> offsets,
                                     const PassageRules& rules) {
  require(rules.tokens >= 1, "passages: expected at least 1 token each, found {}", rules.tokens);
  const TokenBoundaries boundaries(text, offsets);
  const Index total = static_cast<Index>(offsets.size());
  std::vector<TokenRange> passages;
  Index begin = 0;
  while (begin < total) {
    const Index end = passage_end(boundaries, begin, rules.tokens, total);
    passages.push_back({begin, end});
    if (end == total) break;
    begin = rules.overlapping
                ? passage_end(boundaries, begin, std::max<Index>(1, (end - begin) / 2), total)
                : end;
  }
  return passages;
}

std::vector<Index> word_starts(std::string_view text, std::span<const CharacterSpan> offsets) {
  return starts_at(text, offsets, Boundary::beside_mark);
}

std::vector<Index> sentence_starts(std::string_view text, std::span<const CharacterSpan> offsets) {
  return starts_at(text, offsets, Boundary::sentence);
}

}  // namespace longformer::engine
