// Rows that are put together token by token: marks, and texts that are tokenized apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/reading/segments.h"
#include "longformer/text.h"

namespace longformer::engine {

/// `sequence` is the number of the text that a token is of, −1 for none (Encoding::sequence_ids).
void append_token(Encoding& row, std::int32_t id, std::int8_t sequence, bool is_special);
/// Ordinary tokens without places in a text.
void append_ids(Encoding& row, std::span<const std::int32_t> ids, std::int8_t sequence);
/// All tokens of a text, as of that number; returns where they stand.
TokenRange append_text(Encoding& row, const Encoding& text, std::int8_t sequence);
/// Tokens of another row as they are.
void append_tokens(Encoding& row, const Encoding& from, TokenRange range);
Encoding slice(const Encoding& all, TokenRange range);

/// The first token of a row, and what stands behind a text. Throws Error for a tokenizer without
/// them.
struct RowEnds {
  std::int32_t first = 0, separator = 0;
};
RowEnds row_ends(const Tokenizer& tokenizer);

/// The id of a special token. Throws Error for a tokenizer without it.
std::int32_t mark_id(const Tokenizer& tokenizer, const std::string& mark);

/// Throws Error for a text that has one of the marks.
void refuse_marks(std::span<const std::int32_t> text, std::span<const std::int32_t> ids,
                  std::span<const std::string> marks);

template <std::size_t N>
std::array<std::int32_t, N> mark_ids(const Tokenizer& tokenizer,
                                     const std::array<std::string, N>& marks) {
  std::array<std::int32_t, N> ids;
  for (std::size_t i = 0; i < N; ++i) ids[i] = mark_id(tokenizer, marks[i]);
  return ids;
}

}  // namespace longformer::engine
