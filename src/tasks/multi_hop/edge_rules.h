// Rules for edges between tokens of questions over paragraphs
// (docs/spec/other-attentions.md#edges).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/text.h"
#include "models/edges.h"
#include "tasks/engine_names.h"
#include "tasks/multi_hop/multi_hop_reader.h"

namespace longformer::tasks {

/// The question, a title or a sentence, of which tokens stand in a row.
struct LinkedText {
  std::string_view text;
  /// Characters of the tokens that were read.
  std::span<const CharacterSpan> offsets;
  /// The first of them in the row.
  Index first = 0;
  /// −1: the question.
  Index paragraph = -1;
  bool is_title = false;
  /// The mark of the paragraph, or of the sentence, in the row, or kUnread.
  Index mark = kUnread;
};

/// Words that stand in a text behind each other.
struct Mention {
  std::size_t text = 0;
  /// Tokens in the row.
  TokenRange tokens;
};

/// A mention has edges to at most so many mentions of the same name before it, and behind it.
inline constexpr std::size_t kMostLinks = 16;

/// The mentions of each name: words that begin with a capital letter, with nothing but blanks and
/// hyphens between, and in the texts letter for letter alike. The first word of the question or of
/// a sentence is left out where it stands in small letters elsewhere, or in capitals nowhere but at
/// such places. Names that are mentioned once have no place here.
std::vector<std::vector<Mention>> mentions_of_names(std::span<const LinkedText> texts);

/// Edges of a row of the kinds in this order: both ways between
/// - names: the tokens of two mentions of one name in different texts;
/// - titles: the tokens of a title, and of each of its sentences the mark and the first token; the
///   tokens of a title, and those of its words, without what it has in brackets, in other
///   paragraphs and in the question.
std::vector<models::Edge> linked_tokens(std::span<const LinkedText> texts,
                                        std::span<const std::string> kinds);

}  // namespace longformer::tasks
