// Documents become rows of tokens for coreference: word by word, in as many segments as it takes.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/reading/reading.h"
#include "engine/reading/token_parts.h"
#include "longformer/document.h"
#include "tasks/coreference/coreference_config.h"
#include "tasks/coreference/coreference_data.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// Special tokens around the name of whoever begins to speak.
inline const std::array<std::string, 2> kSpeakerMarks = {"[speaker]", "[/speaker]"};

/// The kind of that name; `otherwise` for an empty one. Throws Error for other names.
CoreferenceSegments segments_named(const std::string& name, CoreferenceSegments otherwise);

struct CoreferenceReading {
  Reading reading;
  /// Places of the words that were read whole; without clusters.
  CoreferenceTarget words;
  /// Words behind a truncation.
  Index unread_words = 0;
};

class CoreferenceReader {
 public:
  /// The tokenizer must outlive the reader. A document longer than a segment is split unless it is
  /// truncated. Throws Error for options that leave no room.
  CoreferenceReader(const Tokenizer& tokenizer, ReadingOptions options,
                    const CoreferenceOptions& coreference, const CoreferenceConfig& config);

  /// Every word has at least one token, that of unknown words where it would have none. Where two
  /// are named, whoever begins to speak stands before the first word, between marks. Throws Error
  /// for words with the marks.
  CoreferenceReading read(const CoreferenceWords& document) const;

  /// Tokens of each sentence, or of each word where sentences are not known.
  std::vector<Index> sentence_tokens(const CoreferenceWords& document) const;

 private:
  /// Tokens of a document without special ones around them.
  struct Pieces {
    Encoding tokens;
    /// Each word has its first and its last token, and the first one that stands before it.
    std::vector<Index> first, last, begin;
  };

  Pieces pieces_of(const CoreferenceWords& document) const;
  Encoding word_tokens(const std::string& word) const;
  void add_speaker(const std::string& name, Pieces& pieces) const;
  /// Which of so many tokens of a document stand in which row.
  std::vector<TokenRange> segments_of(const CoreferenceWords& document, const Pieces& pieces) const;
  /// Rows of the tokens in the ranges of the reading; returns the place of each token in all rows,
  /// from the row in which it has most context.
  std::vector<Index> add_rows(Reading& reading) const;
  bool is_continued() const;

  const Tokenizer& tokenizer_;
  RowReader rows_;
  CoreferenceSegments segments_;
  Index widest_;
  bool same_sentence_;
  std::optional<std::array<std::int32_t, 2>> marks_;
  bool knows_speakers_;
};

/// The words [begin, end) of a document.
CoreferenceExample part_of(const CoreferenceExample& example, TokenRange words);

/// The words of each sentence, or each word where sentences are not known.
std::vector<TokenRange> sentences_of(const CoreferenceWords& document);

}  // namespace longformer::tasks
