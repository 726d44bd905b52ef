#include "engine/reading/token_parts.h"

#include <algorithm>

#include "core/error.h"

namespace longformer::engine {

void append_token(Encoding& row, std::int32_t id, std::int8_t sequence, bool is_special) {
  row.ids.push_back(id);
  row.offsets.push_back({});
  row.type_ids.push_back(0);
  row.special_tokens_mask.push_back(is_special ? 1 : 0);
  row.sequence_ids.push_back(sequence);
}

void append_ids(Encoding& row, std::span<const std::int32_t> ids, std::int8_t sequence) {
  for (const std::int32_t id : ids) append_token(row, id, sequence, false);
}

TokenRange append_text(Encoding& row, const Encoding& text, std::int8_t sequence) {
  const Index begin = std::ssize(row.ids);
  row.ids.insert(row.ids.end(), text.ids.begin(), text.ids.end());
  row.offsets.insert(row.offsets.end(), text.offsets.begin(), text.offsets.end());
  row.type_ids.resize(row.ids.size(), 0);
  row.special_tokens_mask.resize(row.ids.size(), 0);
  row.sequence_ids.resize(row.ids.size(), sequence);
  return {begin, std::ssize(row.ids)};
}

void append_tokens(Encoding& row, const Encoding& from, TokenRange range) {
  const auto add = [&](auto& all, const auto& more) {
    all.insert(all.end(), more.begin() + range.begin, more.begin() + range.end);
  };
  add(row.ids, from.ids);
  add(row.offsets, from.offsets);
  add(row.type_ids, from.type_ids);
  add(row.special_tokens_mask, from.special_tokens_mask);
  add(row.sequence_ids, from.sequence_ids);
}

Encoding slice(const Encoding& all, TokenRange range) {
  Encoding part;
  append_tokens(part, all, range);
  return part;
}

RowEnds row_ends(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  require(special.cls && special.sep,
          "tokenizer: expected a first token (cls) and a separator (sep), found none");
  return {*special.cls, *special.sep};
}

std::int32_t mark_id(const Tokenizer& tokenizer, const std::string& mark) {
  const auto id = tokenizer.id(mark);
  require(id.has_value(), "tokenizer: expected the special token {}, found none", mark);
  return *id;
}

void refuse_marks(std::span<const std::int32_t> text, std::span<const std::int32_t> ids,
                  std::span<const std::string> marks) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    require(std::find(text.begin(), text.end(), ids[i]) == text.end(),
            "expected texts without the special token {}, found it in one", marks[i]);
  }
}

}  // namespace longformer::engine
