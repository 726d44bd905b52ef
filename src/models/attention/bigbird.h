// The keys that tokens see in BigBird (Zaheer et al. 2020, arXiv 2007.14062 §2;
// docs/spec/other-attentions.md#h1), as parts of one softmax.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/spec.h"
#include "models/layer_recipe.h"
#include "ops/attention_probabilities.h"

namespace longformer::models {

/// "blocks of 64 tokens …", for people.
std::string description_of(const BlockRecipe& blocks);

/// Texts of at most so many tokens see all of themselves.
Index most_dense_tokens(const BlockRecipe& blocks);

/// The specs of all parts: the first and the last block of each text, and all of short texts, which
/// see everything; the other blocks with their neighbours and the last one; and these with the
/// first block. `dense` is how heads see everything; with random blocks, which come in addition,
/// the first block does not stand for them. The rows of queries are those of `rows`.
std::vector<kernels::AttentionSpec> block_specs(
    const kernels::AttentionPattern& dense, const BlockRecipe& blocks,
    const std::shared_ptr<const kernels::AttentionRows>& rows, bool has_random_blocks);

/// Numbers that are added to scores while no block is drawn, in a text of n tokens: −∞ for keys
/// that a query does not see.
ops::ScoreTerm block_term(const BlockRecipe& blocks, Index n);

}  // namespace longformer::models
