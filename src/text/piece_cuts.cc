#include "text/piece_cuts.h"

#include <algorithm>
#include <string_view>

#include "text/unicode.h"

namespace longformer::text {
namespace {

using Characters = std::vector<NormalizedCharacter>;

bool has(const NormalizedCharacter& c, std::uint16_t flag) {
  return (character_flags(c.value) & flag) != 0;
}

PieceRanges cut_at_whitespace(const Characters& characters, const PieceRanges& pieces) {
  PieceRanges result;
  for (auto [begin, end] : pieces) {
    for (auto i = begin; i <= end; ++i) {
      if (i < end && !has(characters[i], CharacterFlags::whitespace)) continue;
      if (begin < i) result.emplace_back(begin, i);
      begin = i + 1;
    }
  }
  return result;
}

PieceRanges cut_into_words(const Characters& characters, const PieceRanges& pieces) {
  const auto kind_at = [&](std::size_t i) {
    return has(characters[i], CharacterFlags::word)         ? 1
           : has(characters[i], CharacterFlags::whitespace) ? 0
                                                            : 2;
  };
  PieceRanges result;
  for (auto [begin, end] : pieces) {
    while (begin < end) {
      const int kind = kind_at(begin);
      auto next = begin + 1;
      while (next < end && kind_at(next) == kind) ++next;
      if (kind != 0) result.emplace_back(begin, next);
      begin = next;
    }
  }
  return result;
}

/// A part of a piece, and whether the pattern matches it.
struct PieceMatch {
  std::size_t begin, end;
  bool matches;
};

std::vector<PieceMatch> matches_of(const Characters& characters,
                                   std::pair<std::size_t, std::size_t> piece, const PieceCut& cut) {
  const auto& pattern = cut.pattern;
  const bool is_punctuation = cut.kind == PieceCut::Kind::punctuation;
  const std::size_t size = is_punctuation ? 1 : pattern.size();
  const auto stands_at = [&](std::size_t i) {
    if (is_punctuation) return has(characters[i], CharacterFlags::punctuation);
    if (piece.second - i < pattern.size()) return false;
    return std::equal(pattern.begin(), pattern.end(),
                      characters.begin() + static_cast<std::ptrdiff_t>(i),
                      [](char32_t wanted, const auto& c) { return wanted == c.value; });
  };
  std::vector<PieceMatch> matches;
  auto before = piece.first;
  for (auto i = piece.first; i < piece.second;) {
    if (!stands_at(i)) {
      ++i;
      continue;
    }
    if (before < i) matches.push_back({before, i, cut.inverts});
    matches.push_back({i, i + size, !cut.inverts});
    before = i += size;
  }
  if (before < piece.second) matches.push_back({before, piece.second, cut.inverts});
  return matches;
}

/// Appends the pieces that stay of the parts of one, as `tokenizers` merges them.
void append_pieces(std::vector<PieceMatch> matches, SplitBehavior behavior, PieceRanges& pieces) {
  using Behavior = SplitBehavior;
  const bool backwards = behavior == Behavior::merged_with_next;
  const bool merges = backwards || behavior == Behavior::merged_with_previous;
  if (backwards) std::ranges::reverse(matches);
  PieceRanges own;
  bool before = false;
  for (const auto& [begin, end, is_match] : matches) {
    const bool joins =
        (merges && is_match && !before) || (behavior == Behavior::contiguous && is_match == before);
    before = is_match;
    if (behavior == Behavior::removed && is_match) continue;
    if (!joins || own.empty()) {
      own.emplace_back(begin, end);
    } else if (backwards) {
      own.back().first = begin;
    } else {
      own.back().second = end;
    }
  }
  if (backwards) std::ranges::reverse(own);
  pieces.insert(pieces.end(), own.begin(), own.end());
}

PieceRanges cut_at_pattern(const Characters& characters, const PieceRanges& pieces,
                           const PieceCut& cut) {
  PieceRanges result;
  for (const auto& piece : pieces) {
    append_pieces(matches_of(characters, piece, cut), cut.behavior, result);
  }
  return result;
}

void replace_spaces(const PieceCut& cut, Characters& characters, PieceRanges& pieces) {
  Characters replaced;
  PieceRanges parts;
  replaced.reserve(characters.size() + pieces.size());
  for (const auto& [begin, end] : pieces) {
    auto part = replaced.size();
    const auto first = characters[begin];
    const bool marked = first.value == ' ' || first.value == cut.replacement;
    if (!marked && takes_prefix(first.begin, cut)) {
      replaced.push_back({cut.replacement, first.begin, first.end});
    }
    for (auto i = begin; i < end; ++i) {
      const bool mark = characters[i].value == ' ' || characters[i].value == cut.replacement;
      if (mark && cut.split && part < replaced.size()) {
        parts.emplace_back(part, replaced.size());
        part = replaced.size();
      }
      replaced.push_back(characters[i]);
      if (mark) replaced.back().value = cut.replacement;
    }
    parts.emplace_back(part, replaced.size());
  }
  characters = std::move(replaced);
  pieces = std::move(parts);
}

}  // namespace

bool takes_prefix(std::size_t begin, const PieceCut& cut) {
  return cut.prefix == PrefixScheme::always || (cut.prefix == PrefixScheme::first && begin == 0);
}

void apply(const PieceCut& cut, Characters& characters, PieceRanges& pieces) {
  switch (cut.kind) {
    case PieceCut::Kind::whitespace:
      pieces = cut_at_whitespace(characters, pieces);
      return;
    case PieceCut::Kind::words:
      pieces = cut_into_words(characters, pieces);
      return;
    case PieceCut::Kind::metaspace:
      return replace_spaces(cut, characters, pieces);
    case PieceCut::Kind::pattern:
    case PieceCut::Kind::punctuation:
      pieces = cut_at_pattern(characters, pieces, cut);
      return;
  }
}

}  // namespace longformer::text
