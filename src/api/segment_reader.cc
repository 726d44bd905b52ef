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
  try {
    cut(around, document);
  } catch (const Error& error) {
    document.error = error.what();
    document.segments.clear();
  }
  return document;
}

void SegmentReader::cut(const tasks::TextTemplate& around, SegmentedDocument& document) const {
  const Index most = model_.info().max_tokens;
  const Index capacity = most - around.size();
  const bool split = options_.too_long == TooLong::split;
  require(capacity > (split ? options_.stride : 0),
          "question: expected at most {} tokens with the special ones, found {}",
          most - 1 - (split ? options_.stride : 0), around.size());
  document.encoding =
      tokenizer_.encode(document.text, {.add_special_tokens = false, .max_length = {}});
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
    Segment& segment = document.segments.emplace_back();
    segment.tokens = around.around(document.encoding, range);
    if (options_.global_attention) {
      segment.global_mask = options_.global_attention->mask(model_, segment.tokens, document.text);
    }
  }
}

}  // namespace longformer
