// Questions over several paragraphs become rows of tokens in which every paragraph and sentence has
// a mark (Longformer paper, appendix D, HotpotQA).
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "engine/reading/reading.h"
#include "engine/reading/token_parts.h"
#include "longformer/document.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// Special tokens around the question and titles, and behind every sentence.
inline const std::array<std::string, 5> kMultiHopMarks = {"[q]", "[/q]", "<t>", "</t>", "[s]"};

/// A mark or sentence that truncation cut off.
inline constexpr Index kUnread = -1;
/// The number that a title has among the sentences of its paragraph.
inline constexpr Index kTitle = -1;

/// A title or sentence of which tokens were read.
struct ReadText {
  Index paragraph = 0;
  /// kTitle, or its number.
  Index sentence = kTitle;
  /// Its first token, counted over all rows, and how many were read.
  Index first = 0, read = 0;
  /// Characters of all its tokens, also those that were not read.
  std::vector<CharacterSpan> offsets;
};

/// Places that the head scores, in tokens counted over all rows.
struct MultiHopPlaces {
  /// The first token of every row.
  std::vector<Index> row_starts;
  /// Marks that were read.
  std::vector<Index> paragraphs, sentences;
};

struct MultiHopReading {
  Reading reading;
  std::vector<Index> row_starts;
  /// [paragraphs] and [paragraphs][sentences]: their marks, or kUnread.
  std::vector<Index> paragraphs;
  std::vector<std::vector<Index>> sentences;
  /// In their order.
  std::vector<ReadText> texts;
  Index unread_paragraphs = 0, unread_sentences = 0;

  MultiHopPlaces places() const;
};

/// `<s> [q] question [/q] <t> title </t> sentence [s] sentence [s] … <t> title </t> … </s>`
class MultiHopReader {
 public:
  /// The tokenizer must outlive the reader. Throws Error when it lacks one of the marks, a first
  /// token or a separator.
  MultiHopReader(const Tokenizer& tokenizer, ReadingOptions options);

  /// Titles and sentences are tokenized apart, behind a space. One row, of which truncation cuts
  /// the end; or, split, rows of as many whole paragraphs as there is room for, each behind the
  /// question, where a paragraph that has no room in a row of its own is cut. Of a row, sequence 0
  /// is what stands before the first paragraph, 1 the paragraphs, without `</t>`, with their marks
  /// as special tokens. Throws Error for what is too long and for texts with the marks.
  MultiHopReading read(const MultiHopQuestion& question) const;

 private:
  /// `<t> title </t> sentence [s] …`
  struct Part {
    Encoding tokens;
    TokenRange title;
    /// Each ends where its mark is.
    std::vector<TokenRange> sentences;
  };
  struct Row;

  /// The edges of a row, whose texts are those of the reading from `first` on.
  std::vector<models::Edge> edges_of(const MultiHopQuestion& question, const Encoding& prefix,
                                     const MultiHopReading& reading, std::size_t first,
                                     Index begin) const;
  Encoding encode(const std::string& text) const;
  Encoding question_part(const std::string& question) const;
  Part part_of(const Paragraph& paragraph) const;
  std::vector<std::vector<Index>> rows_for(std::span<const Part> parts, Index room) const;
  void add(const Part& part, Index number, Index most, Row& row, MultiHopReading& result) const;

  const Tokenizer& tokenizer_;
  RowReader rows_;
  std::array<std::int32_t, 5> marks_;
  RowEnds ends_;
};

/// Which tokens of such a row have global attention in a Longformer: the question with all that
/// stands before the first paragraph, and the marks of paragraphs and sentences.
std::vector<Index> multi_hop_globals(const Encoding& row);

}  // namespace longformer::tasks
