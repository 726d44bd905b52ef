#include "engine/reading/text_template.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace longformer::engine {
namespace {

template <typename Element>
std::vector<Element> spliced(const std::vector<Element>& whole, Index prefix, Index suffix,
                             std::span<const Element> middle) {
  std::vector<Element> result(whole.begin(), whole.begin() + prefix);
  result.insert(result.end(), middle.begin(), middle.end());
  result.insert(result.end(), whole.end() - suffix, whole.end());
  return result;
}

/// A pair of texts without the tokens of the first one behind so many.
Encoding with_first_cut(Encoding pair, Index most) {
  const auto& ids = pair.sequence_ids;
  const auto begin = std::find(ids.begin(), ids.end(), 0) - ids.begin();
  const auto end = ids.rend() - std::find(ids.rbegin(), ids.rend(), 0);
  if (most == 0 || end - begin <= most) return pair;
  const auto cut = [&](auto& values) {
    values.erase(values.begin() + begin + most, values.begin() + end);
  };
  cut(pair.ids);
  cut(pair.offsets);
  cut(pair.type_ids);
  cut(pair.special_tokens_mask);
  cut(pair.sequence_ids);
  return pair;
}

}  // namespace

TextTemplate::TextTemplate(const Tokenizer& tokenizer) : TextTemplate(tokenizer.encode("a"), 0) {}

TextTemplate::TextTemplate(const Tokenizer& tokenizer, std::string_view question,
                           Index max_question_tokens)
    : TextTemplate(tokenizer.encode_pair(question, "a"), 1, max_question_tokens) {}

TextTemplate::TextTemplate(Encoding whole, std::int8_t sequence, Index most_before)
    : sequence_(sequence), cut_(std::ssize(whole.ids)) {
  whole_ = with_first_cut(std::move(whole), most_before);
  cut_ -= std::ssize(whole_.ids);
  const auto& ids = whole_.sequence_ids;
  const auto first = std::find(ids.begin(), ids.end(), sequence_);
  require(first != ids.end(), "tokenizer: expected a token for the text \"a\", found none");
  const auto last = std::find(ids.rbegin(), ids.rend(), sequence_);
  prefix_ = first - ids.begin();
  suffix_ = last - ids.rbegin();
}

Encoding TextTemplate::around(const Encoding& text, TokenRange segment) const {
  const auto begin = static_cast<std::size_t>(segment.begin);
  const auto count = static_cast<std::size_t>(segment.size());
  const std::vector<std::int32_t> types(count, whole_.type_ids[static_cast<std::size_t>(prefix_)]);
  const std::vector<std::uint8_t> special(count, 0);
  const std::vector<std::int8_t> sequences(count, sequence_);
  const auto splice = [&](const auto& whole, const auto& middle) {
    return spliced(whole, prefix_, suffix_, std::span(middle));
  };
  Encoding result;
  result.ids = splice(whole_.ids, std::span(text.ids).subspan(begin, count));
  result.offsets = splice(whole_.offsets, std::span(text.offsets).subspan(begin, count));
  result.type_ids = splice(whole_.type_ids, types);
  result.special_tokens_mask = splice(whole_.special_tokens_mask, special);
  result.sequence_ids = splice(whole_.sequence_ids, sequences);
  return result;
}

}  // namespace longformer::engine
