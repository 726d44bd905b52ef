// A text becomes what a model reads: tokens, in one segment or in several that overlap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longformer/embedding.h"
#include "longformer/global_attention.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"
#include "tasks/collation.h"
#include "tasks/segments.h"
#include "tasks/text_template.h"

namespace longformer {

/// A part of a document as the model reads it.
struct Segment {
  Encoding tokens;
  /// 1 for global tokens; empty for the default of the model's head.
  std::vector<std::int32_t> global_mask;
};

/// A document as segments, or why there are none. Of a document that no SegmentReader cut, text,
/// encoding and ranges stay empty.
struct SegmentedDocument {
  std::string text;
  /// Of the text alone; what lies behind the last range was truncated.
  Encoding encoding;
  /// The tokens of the text in each segment; in the segment they stand behind `prefix` others.
  std::vector<tasks::TokenRange> ranges;
  std::vector<Segment> segments;
  Index prefix = 0;
  /// Tokens of the document with special ones, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that truncation cut off.
  std::int64_t truncated = 0;
  /// Of a text that was given as words: the word of each token of `encoding`, and their number.
  std::vector<Index> words;
  std::size_t word_count = 0;
  /// Of a question whose candidates are read together: where they stand in every segment.
  std::vector<Index> places;
  std::string error;
};

struct SegmentOptions {
  TooLong too_long = TooLong::refuse;
  /// Least overlap of the segments of TooLong::split, in tokens.
  std::int64_t stride = 128;
  std::optional<GlobalAttention> global_attention;
};

class SegmentReader {
 public:
  /// Throws Error for options that do not fit the model.
  SegmentReader(const Model& model, const Tokenizer& tokenizer, SegmentOptions options);

  /// A text alone.
  SegmentedDocument read(std::string text) const;
  /// A text behind a question, which every segment repeats.
  SegmentedDocument read(std::string_view question, std::string text) const;
  /// A pair of texts: with TooLong::split as a text behind a question, else whole or, with
  /// TooLong::truncate, with the longer one cut; it then has no ranges.
  SegmentedDocument read_pair(const std::string& text, std::string pair) const;
  /// A text that is given as words; see tasks::encode_words.
  SegmentedDocument read(std::span<const std::string> words) const;

 private:
  SegmentedDocument read(const tasks::TextTemplate& around, std::string text) const;
  void add_segment(Encoding tokens, SegmentedDocument& document) const;
  void cut_or_say_why(const tasks::TextTemplate& around, SegmentedDocument& document) const;
  void cut(const tasks::TextTemplate& around, SegmentedDocument& document) const;

  const Model& model_;
  const Tokenizer& tokenizer_;
  SegmentOptions options_;
  tasks::TextTemplate around_;
};

}  // namespace longformer
