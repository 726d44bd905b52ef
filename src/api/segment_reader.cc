#include "api/segment_reader.h"

#include "core/error.h"

namespace longformer {

SegmentReader::SegmentReader(const Model& model, const Tokenizer& tokenizer, SegmentOptions options)
    : model_(model), tokenizer_(tokenizer), options_(std::move(options)), around_(tokenizer) {
  const ModelInfo& info = model.info();
  require(!options_.global_attention || info.has_global_attention,
          "global attention: expected a Longformer model, found {}", info.model_type);
  const Index capacity = info.max_tokens - around_.size();
  require(capacity > 0, "model: expected room for more than {} tokens, found {}", around_.size(),
          info.max_tokens);
  require(
      options_.too_long != TooLong::split || (options_.stride >= 0 && options_.stride < capacity),
      "stride: expected 0 to {} tokens, found {}", capacity - 1, options_.stride);
}

SegmentedDocument SegmentReader::read(std::string text) const {
  return read(around_, std::move(text));
}

SegmentedDocument SegmentReader::read(std::string_view question, std::string text) const {
  return read(tasks::TextTemplate(tokenizer_, question), std::move(text));
}

SegmentedDocument SegmentReader::read(const tasks::TextTemplate& around, std::string text) const {
  SegmentedDocument document;
  document.text = std::move(text);
  document.encoding =
      tokenizer_.encode(document.text, {.add_special_tokens = false, .max_length = {}});
  cut_or_say_why(around, document);
  return document;
}

SegmentedDocument SegmentReader::read(std::span<const std::string> words) const {
  tasks::WordTokens tokens = tasks::encode_words(tokenizer_, words);
  SegmentedDocument document;
  document.text = std::move(tokens.text);
  document.encoding = std::move(tokens.tokens);
  document.words = std::move(tokens.words);
  document.word_count = words.size();
  cut_or_say_why(around_, document);
  return document;
}

SegmentedDocument SegmentReader::read_pair(const std::string& text, std::string pair) const {
  if (options_.too_long == TooLong::split) return read(text, std::move(pair));
  SegmentedDocument document;
  document.text = std::move(pair);
  const Index most = model_.info().max_tokens;
  EncodeOptions options;
  if (options_.too_long == TooLong::truncate) options.max_length = most;
  try {
    Encoding tokens = tokenizer_.encode_pair(text, document.text, options);
    const auto count = static_cast<Index>(tokens.ids.size());
    require(count <= most, "expected at most {} tokens, found {} (--truncate keeps the first ones)",
            most, count);
    document.truncated = tokens.truncated;
    document.tokens = count + tokens.truncated;
    add_segment(std::move(tokens), document);
  } catch (const Error& error) {
    document.error = error.what();
  }
  return document;
}

void SegmentReader::add_segment(Encoding tokens, SegmentedDocument& document) const {
  Segment& segment = document.segments.emplace_back();
  segment.tokens = std::move(tokens);
  if (options_.global_attention) {
    segment.global_mask = options_.global_attention->mask(model_, segment.tokens, document.text);
  }
}

void SegmentReader::cut_or_say_why(const tasks::TextTemplate& around,
                                   SegmentedDocument& document) const {
  try {
    cut(around, document);
  } catch (const Error& error) {
    document.error = error.what();
    document.segments.clear();
  }
}

void SegmentReader::cut(const tasks::TextTemplate& around, SegmentedDocument& document) const {
  const Index most = model_.info().max_tokens;
  const Index capacity = most - around.size();
  const bool split = options_.too_long == TooLong::split;
  require(capacity > (split ? options_.stride : 0),
          "question: expected at most {} tokens with the special ones, found {}",
          most - 1 - (split ? options_.stride : 0), around.size());
  document.prefix = around.prefix();
  auto tokens = static_cast<Index>(document.encoding.ids.size());
  document.tokens = tokens + around.size();
  if (tokens > capacity) {
    require(options_.too_long != TooLong::refuse,
            "expected at most {} tokens, found {} (--truncate keeps the first ones, --stride N "
            "reads all in segments that overlap by N tokens)",
            most, document.tokens);
    if (options_.too_long == TooLong::truncate) {
      document.truncated = tokens - capacity;
      tokens = capacity;
    }
  }
  document.ranges = tasks::plan_segments(tokens, capacity, split ? options_.stride : 0);
  for (const tasks::TokenRange& range : document.ranges) {
    add_segment(around.around(document.encoding, range), document);
  }
}

}  // namespace longformer
