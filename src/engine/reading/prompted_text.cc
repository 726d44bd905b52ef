#include "engine/reading/prompted_text.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/reading/token_parts.h"
#include "text/boundaries.h"

namespace longformer::engine {

Prompt read_prompt(const Tokenizer& tokenizer, std::string text, bool pooled) {
  Prompt prompt;
  prompt.characters = static_cast<Index>(character_starts(text).size()) - 1;
  if (!pooled && !text.empty()) {
    const Encoding alone = tokenizer.encode(text);
    const bool closed = alone.special_tokens_mask.back() != 0;
    prompt.skipped_rows = static_cast<Index>(alone.ids.size()) - (closed ? 1 : 0);
  }
  prompt.text = std::move(text);
  return prompt;
}

Encoding encode_behind(const Tokenizer& tokenizer, const Prompt& prompt, std::string_view text) {
  if (prompt.text.empty()) return encode_plain(tokenizer, text);
  Encoding tokens = encode_plain(tokenizer, prompt.text + std::string(text));
  for (CharacterSpan& span : tokens.offsets) {
    span = {std::max<Index>(0, span.begin - prompt.characters),
            std::max<Index>(0, span.end - prompt.characters)};
  }
  return tokens;
}

Encoding ids_behind(const Tokenizer& tokenizer, const Prompt& prompt,
                    std::span<const std::int32_t> ids) {
  const std::size_t end = prompt.text.find_last_not_of(' ') + 1;
  Encoding tokens;
  append_ids(tokens, encode_plain(tokenizer, std::string_view(prompt.text).substr(0, end)).ids, 0);
  append_ids(tokens, ids, 0);
  return tokens;
}

std::vector<TokenRange> passages_behind(const Prompt& prompt, std::string_view text,
                                        const Encoding& encoding, const PassageRules& rules) {
  std::span<const CharacterSpan> offsets = encoding.offsets;
  Index first = 0;
  if (!prompt.text.empty()) {
    const auto begin = std::find_if(offsets.begin(), offsets.end(),
                                    [](CharacterSpan span) { return span.end > 0; });
    first = begin - offsets.begin();
    offsets = offsets.subspan(static_cast<std::size_t>(first));
  }
  std::vector<TokenRange> passages = cut_passages(text, offsets, rules);
  for (TokenRange& passage : passages) passage = {passage.begin + first, passage.end + first};
  return passages;
}

TokenRange tokens_with(CharacterSpan span, const Encoding& encoding) {
  const auto& offsets = encoding.offsets;
  const auto begin = std::partition_point(offsets.begin(), offsets.end(),
                                          [&](CharacterSpan one) { return one.end <= span.begin; });
  const auto end = std::partition_point(begin, offsets.end(),
                                        [&](CharacterSpan one) { return one.begin < span.end; });
  require(begin < end, "passages: expected one with tokens, found none in characters {} to {}",
          span.begin, span.end);
  return {begin - offsets.begin(), end - offsets.begin()};
}

std::string text_between(std::string_view text, std::span<const std::size_t> starts,
                         CharacterSpan span) {
  const std::size_t begin = starts[at(span.begin)];
  return std::string(text.substr(begin, starts[at(span.end)] - begin));
}

Index passage_overlap(const ReadingOptions& options, const Tokenizer& tokenizer,
                      std::span<const TokenRange> passages, Index least) {
  Index longest = 0;
  for (const TokenRange& passage : passages) longest = std::max(longest, passage.size());
  const Index most = (options.max_tokens - TextTemplate(tokenizer).size()) / 2;
  require(longest <= most, "passages: expected at most {} tokens each, found {}", most, longest);
  return std::min(most, std::max(least, 2 * longest));
}

std::vector<CharacterSpan> spans_of(std::string_view text, const Encoding& encoding,
                                    std::span<const TokenRange> passages) {
  const std::vector<std::size_t> starts = character_starts(text);
  std::vector<CharacterSpan> spans;
  for (const TokenRange& passage : passages) {
    const CharacterSpan tokens = {encoding.offsets[at(passage.begin)].begin,
                                  encoding.offsets[at(passage.end - 1)].end};
    spans.push_back(text::whole_graphemes(text, starts, tokens));
  }
  return spans;
}

std::vector<CharacterSpan> passage_spans(std::string_view text, const Encoding& encoding,
                                         const PassageRules& rules) {
  return spans_of(text, encoding, passages_behind({}, text, encoding, rules));
}

}  // namespace longformer::engine
