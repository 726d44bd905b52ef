#include "encode_whole.h"

#include <fmt/format.h>

#include "longformer/error.h"

namespace longformer::cli {

Encoding encode_whole(const Document& document, const std::string& text,
                      const WholeEncoder& encoder) {
  const std::int64_t limit = encoder.model.info().max_tokens;
  EncodeOptions options;
  if (encoder.truncate) options.max_length = limit;
  Encoding encoding = encoder.tokenizer.encode(text, options);
  const auto tokens = static_cast<std::int64_t>(encoding.ids.size());
  if (tokens > limit) {
    throw Error(
        fmt::format("{} tokens, the model takes {}: use --truncate, or convert the model "
                    "to more positions",
                    tokens, limit));
  }
  if (encoding.truncated > 0) {
    encoder.messages.note(fmt::format("{}: {} tokens, kept the first {}", document.label(),
                                      tokens + encoding.truncated, tokens));
  }
  return encoding;
}

}  // namespace longformer::cli
