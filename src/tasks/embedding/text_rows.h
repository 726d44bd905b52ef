// Texts on their way into rows of tokens, and the tokens that their vectors are made of.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "engine/reading/prompted_text.h"
#include "engine/reading/reading.h"
#include "engine/reading/text_template.h"
#include "longformer/embedding.h"
#include "ops/embedding.h"
#include "tasks/embedding/pooled_vectors.h"

namespace longformer::tasks {

/// A row of a text, and the tokens of it that go into vectors of the result.
struct PooledRow {
  engine::TokenRow row;
  std::vector<ops::RowRange> ranges;
  /// The vector of each range.
  std::vector<Index> vectors;
  /// The tokens that no other row of the text stands for, special ones and prompt included.
  ops::RowRange owned;
  bool ends_document = false;
  /// Index of the text in the call.
  std::size_t text = 0;

  void add(Index vector, ops::RowRange range) {
    ranges.push_back(range);
    vectors.push_back(vector);
  }
};

std::vector<PooledRow> pooled_rows(engine::Reading& reading);

VectorFold fold_of(Pooling pooling);

/// Rows of at most `limit` tokens, of which those of a split text overlap by a fixed number. A
/// table of tokens has no limit of its own: what is longer is cut without overlap.
engine::ReadingOptions reading_of(const Model& model, const Tokenizer& tokenizer, Index limit,
                                  const EmbedOptions& options);

/// Texts of one call on their way into rows.
struct TextReader {
  const engine::RowReader& rows;
  const Tokenizer& tokenizer;
  const engine::Prompt& prompt;
  Pooling pooling;
  /// The model is a table: texts may have no token, and `dropped` does not count.
  bool is_table = false;
  std::optional<std::int32_t> dropped = std::nullopt;
  /// Gets the characters of all tokens of the text, special ones and prompt included; may be null.
  std::vector<CharacterSpan>* places = nullptr;

  /// Appends the rows of a text, whose vectors begin at `first_vector`; fills in everything of its
  /// Embedding but the values.
  Embedding read(const EmbedInput& input, Index first_vector, std::vector<PooledRow>& all) const;

 private:
  Encoding tokens_of(const EmbedInput& input) const;
  std::vector<CharacterSpan> spans_of(const engine::Reading& reading) const;
};

/// Offsets of all tokens of a reading with its special ones, which have {0, 0}.
std::vector<CharacterSpan> token_spans(const engine::Reading& reading,
                                       const engine::TextTemplate& around);

}  // namespace longformer::tasks
