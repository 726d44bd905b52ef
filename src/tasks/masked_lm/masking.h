// Masked-language-model data: documents packed into rows of full length, and RoBERTa's masking
// (docs/spec/training.md#c3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.h"
#include "longformer/text.h"

namespace longformer::tasks {

struct PackingRules {
  /// Length of a row, with the special tokens at its ends.
  Index tokens = 512;
  /// Fill each row to its length: it may begin inside one document and end inside another, with a
  /// separator between them. Without, a row holds tokens of one document, and the last row of a
  /// document is as short as it comes out.
  bool across_documents = true;
};

/// Turns documents into rows `<s> … </s>`: nothing is cut off, only the last row may be short.
class DocumentPacker {
 public:
  /// Throws Error for a tokenizer that puts nothing around a text, and unless a row has room for a
  /// token.
  DocumentPacker(const Tokenizer& tokenizer, PackingRules rules);

  /// The tokens of one document, without special ones; empty documents are dropped. Complete rows
  /// are appended to `rows`.
  void add(std::span<const std::int32_t> document, std::vector<std::vector<std::int32_t>>& rows);
  /// The last row, if tokens are left.
  void finish(std::vector<std::vector<std::int32_t>>& rows);

  /// Special tokens around the tokens of every row.
  std::span<const std::int32_t> prefix() const { return prefix_; }
  std::span<const std::int32_t> suffix() const { return suffix_; }

 private:
  void flush(bool all, std::vector<std::vector<std::int32_t>>& rows);

  std::vector<std::int32_t> prefix_, suffix_;
  std::size_t capacity_ = 0;
  bool across_documents_;
  std::vector<std::int32_t> waiting_;
};

struct MaskingRules {
  /// A token that is not special is chosen with this probability, independently of others.
  double probability = 0.15;
  /// So many of the chosen ones become the mask, so many a random token; the rest stay.
  double mask_share = 0.8, random_share = 0.1;
  std::int32_t mask_id = 0;
  /// Random tokens are below it.
  std::int32_t vocabulary_size = 0;
  /// Tokens that are never chosen, ascending.
  std::vector<std::int32_t> special_ids;
};

/// Rules with the ids of a tokenizer. Throws Error for one without a mask.
MaskingRules masking_rules(const Tokenizer& tokenizer);

/// A row with some of its tokens hidden.
struct MaskedRow {
  std::vector<std::int32_t> ids;
  /// The chosen positions, ascending, and the tokens that stood there.
  std::vector<Index> positions;
  std::vector<std::int32_t> labels;
};

/// Hides tokens of a row. The choice depends on (seed, row) alone: a row number that is never used
/// twice, such as epoch × rows + index, makes it dynamic and repeatable.
MaskedRow mask_row(std::span<const std::int32_t> ids, const MaskingRules& rules, std::uint64_t seed,
                   std::uint64_t row);

/// Hides every `step`-th token that is not special, beginning with the one of number `first`.
MaskedRow mask_every(std::span<const std::int32_t> ids, const MaskingRules& rules, Index step,
                     Index first);

}  // namespace longformer::tasks
