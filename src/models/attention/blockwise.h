// Attention of BlockBERT (arXiv 1911.02972; docs/spec/other-attentions.md#h5): a text is cut into
// blocks, and each head sees one block from each.
#pragma once

#include <string>

#include "kernels/attention/spec.h"
#include "models/layer_recipe.h"
#include "ops/attention_probabilities.h"

namespace longformer::models {

/// "2 blocks; 10 heads see their own, 2 the next one".
std::string description_of(const ShiftedBlockRecipe& blocks);

/// The rows of texts whose tokens see the block that is `shift` behind their own: of n tokens,
/// token i is in block ⌊i·blocks/n⌋.
kernels::AttentionRows shifted_block_rows(const ShiftedBlockRecipe& blocks, Index shift,
                                          const kernels::AttentionRows& rows);

/// Those rows with as many heads of a pattern as have the shift.
kernels::AttentionSpec shifted_block_spec(kernels::AttentionPattern pattern,
                                          const ShiftedBlockRecipe& blocks, Index shift,
                                          const kernels::AttentionRows& rows);

/// 0 where a token of a text of n tokens sees another, −∞ where not.
ops::ScoreTerm shifted_block_term(const ShiftedBlockRecipe& blocks, Index shift, Index n);

}  // namespace longformer::models
