// Texts become rows of tokens, as a model reads them: whole, cut short, or in several rows that
// overlap. Using a model and training one stand on it alike.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/reading/segments.h"
#include "engine/reading/text_template.h"
#include "longformer/document.h"
#include "longformer/error.h"
#include "longformer/options.h"
#include "longformer/text.h"
#include "models/edges.h"

namespace longformer::engine {

/// The tokens of a row that have global attention, ascending; nothing leaves them to the model. The
/// text is what the offsets of the tokens refer to; of a pair, the second one.
using GlobalPositions =
    std::function<std::optional<std::vector<Index>>(const Encoding&, std::string_view text)>;

struct ReadingOptions {
  /// Longest row, with special tokens.
  Index max_tokens = 0;
  /// The option that a user names it by.
  const char* length_option = "max_length";
  TooLong too_long = TooLong::refuse;
  /// Least overlap of the rows of TooLong::split, in tokens.
  Index stride = 128;
  /// Null: left to the model.
  GlobalPositions global_positions = {};
  /// Tokens read of a question before a text; 0: all.
  Index max_question_tokens = 0;
  /// Kinds of edges of the model; tasks that have rules for them make these.
  std::vector<std::string> edges = {};
};

/// A row of tokens as a model reads it. n tokens.
struct TokenRow {
  /// [n]
  std::vector<std::int32_t> ids, types;
  std::optional<std::vector<Index>> global_positions;
  std::vector<models::Edge> edges = {};
};

/// A text as rows. What is read as pairs of texts has rows and counts alone.
struct Reading {
  std::string text;
  /// Tokens of the text alone, without special ones; what lies behind the last range was truncated.
  Encoding encoding;
  /// The tokens of the text in each row, where they stand behind `prefix` others.
  std::vector<TokenRange> ranges;
  std::vector<TokenRow> rows;
  Index prefix = 0;
  /// Count with special tokens, before truncation; for several pairs, the count of the longest.
  Index tokens = 0;
  /// Tokens that truncation cut off, and those of a question behind max_question_tokens.
  Index truncated = 0;
  /// For a text that was given as words: the word of each token of `encoding`, and their number.
  std::vector<Index> words;
  std::size_t word_count = 0;
  /// For candidates that are read together: where they stand in every row.
  std::vector<Index> places;

  /// Tokens of the text that are in some row.
  Index read() const { return ranges.empty() ? 0 : ranges.back().end; }
  /// The reading without text, tokens and rows, for results that refer to no part of the text.
  Reading counts() && {
    text.clear();
    text.shrink_to_fit();
    encoding = {};
    rows.clear();
    return std::move(*this);
  }
};

/// The one place that refuses, truncates and splits: which of `tokens` tokens stand in which row
/// beside `around` others. Rows of TooLong::split share their overlap evenly or, when `filled`, are
/// full up to the last one. `what` is what the others are, for messages. Throws Error for a text
/// that is too long (TooLong::refuse) and for others that leave no room.
std::vector<TokenRange> rows_of(const ReadingOptions& options, Index tokens, Index around,
                                const char* what, bool filled = false);

class RowReader {
 public:
  /// The tokenizer must outlive the reader. Throws Error for options that leave no room.
  RowReader(const Tokenizer& tokenizer, ReadingOptions options);

  const ReadingOptions& options() const { return options_; }
  /// Template of a text alone.
  const TextTemplate& around() const { return around_; }

  // All throw Error for what is too long and for what leaves no room.

  /// A text alone.
  Reading read(std::string text) const;
  /// A text alone whose tokens are known.
  Reading read(Encoding tokens, std::string text) const;
  /// A text behind a question, which every row repeats.
  Reading read(std::string_view question, std::string text) const;
  /// A pair of texts: with TooLong::split as a text behind a question, else whole or, with
  /// TooLong::truncate, with the longer one cut.
  Reading read_pair(const std::string& text, std::string pair) const;
  /// A text that is given as words.
  Reading read(std::span<const std::string> words) const;
  /// One pair for each choice, of which the first text is cut unless TooLong::refuse.
  Reading read(const ChoiceQuestion& question) const;

  /// A row as the model reads it.
  TokenRow row_of(Encoding tokens, std::string_view text) const;

 private:
  void cut(const TextTemplate& around, Reading& reading) const;
  void add_pair(std::string_view first, std::string_view second, const EncodeOptions& options,
                Remedy remedy, Reading& reading) const;

  const Tokenizer& tokenizer_;
  ReadingOptions options_;
  TextTemplate around_;
};

/// Words as tokens, without special ones.
struct WordTokens {
  /// The words with a space between.
  std::string text;
  /// Offsets are characters of `text`.
  Encoding tokens;
  /// The word of each token.
  std::vector<Index> words;
};

/// Tokens of words that are given apart, as `transformers` makes them of is_split_into_words: a
/// byte-level tokenizer reads each behind a space.
WordTokens encode_words(const Tokenizer& tokenizer, std::span<const std::string> words);

/// Tokens without special ones.
Encoding encode_plain(const Tokenizer& tokenizer, std::string_view text);

/// The two texts that are read for one choice of a question; see ChoiceQuestion.
std::pair<std::string, std::string> choice_texts(const ChoiceQuestion& question,
                                                 const std::string& choice);

/// From the first token of the second text of a pair to the end: what a multiple-choice Longformer
/// attends to globally. Empty when the second text has no tokens.
std::vector<Index> from_second_text(const Encoding& pair);

}  // namespace longformer::engine
