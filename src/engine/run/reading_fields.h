// The options of reading that most calls have, described: documents longer than the model, global
// attention, tokens of a forward pass.
#pragma once

#include <cstdint>
#include <optional>

#include "longformer/model.h"
#include "longformer/options.h"

namespace longformer {

/// A flag that chooses one handling of documents that are longer than the model.
OptionField::Flag flag_of(TooLong& too_long, TooLong chosen);
OptionField truncate_field(TooLong& too_long);
OptionField stride_field(TooLong& too_long, std::int64_t& stride);
OptionField batch_tokens_field(std::int64_t& tokens);
/// The longest document, where it is not that of the model.
OptionField max_length_field(std::int64_t& tokens);
/// How the logits of segments become those of the document.
OptionField merge_field(SegmentMerge& merge);

/// All four, of the options of a task.
template <typename Options>
OptionFields reading_fields(Options& options) {
  return {truncate_field(options.too_long), stride_field(options.too_long, options.stride),
          global_attention_field(options.global_attention),
          batch_tokens_field(options.batch_tokens)};
}

}  // namespace longformer
