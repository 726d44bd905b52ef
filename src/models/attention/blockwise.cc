#include "models/attention/blockwise.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "models/attention/attention.h"
#include "ops/attention.h"
#include "ops/heads.h"

namespace longformer::models {
namespace {

using kernels::AttentionRows;

/// The first token of a block of a text of n tokens.
Index block_begin(Index block, Index blocks, Index n) {
  return kernels::divide_up(block * n, blocks);
}

}  // namespace

std::string description_of(const ShiftedBlockRecipe& blocks) {
  std::string text = fmt::format("{} blocks", blocks.blocks);
  for (std::size_t shift = 0; shift < blocks.heads_of_shift.size(); ++shift) {
    const Index heads = blocks.heads_of_shift[shift];
    if (heads == 0) continue;
    text += shift == 0 ? fmt::format("; {} heads see their own", heads)
                       : fmt::format(", {} the one {} behind it", heads, shift);
  }
  return text;
}

AttentionRows shifted_block_rows(const ShiftedBlockRecipe& blocks, Index shift,
                                 const AttentionRows& rows) {
  AttentionRows shifted;
  shifted.key_mask = rows.key_mask;
  for (const kernels::AttentionDocument& text : rows.documents) {
    const Index n = text.query_count;
    for (Index block = 0; block < blocks.blocks; ++block) {
      const Index seen = (block + shift) % blocks.blocks;
      const Index begin = block_begin(block, blocks.blocks, n);
      const Index key_begin = block_begin(seen, blocks.blocks, n);
      shifted.documents.push_back(
          {.query_begin = text.query_begin + begin,
           .query_count = block_begin(block + 1, blocks.blocks, n) - begin,
           .key_begin = text.key_begin + key_begin,
           .key_count = block_begin(seen + 1, blocks.blocks, n) - key_begin});
    }
  }
  return shifted;
}

kernels::AttentionSpec shifted_block_spec(kernels::AttentionPattern pattern,
                                          const ShiftedBlockRecipe& blocks, Index shift,
                                          const AttentionRows& rows) {
  pattern.heads.resize(at(blocks.heads_of_shift[at(shift)]));
  return {std::move(pattern), kernels::shared(shifted_block_rows(blocks, shift, rows))};
}

ops::ScoreTerm shifted_block_term(const ShiftedBlockRecipe& blocks, Index shift, Index n) {
  return [count = blocks.blocks, shift, n](Index query, Index key) {
    const bool sees = (query * count / n + shift) % count == key * count / n;
    return sees ? 0.0f : -std::numeric_limits<float>::infinity();
  };
}

namespace {

/// Heads that see the same block, which attend together.
struct ShiftedHeads {
  Index shift;
  std::vector<Index> heads;
};

std::vector<ShiftedHeads> heads_by_shift(const ShiftedBlockRecipe& blocks) {
  std::vector<ShiftedHeads> groups;
  Index next = 0;
  for (std::size_t shift = 0; shift < blocks.heads_of_shift.size(); ++shift) {
    std::vector<Index> heads(static_cast<std::size_t>(blocks.heads_of_shift[shift]));
    std::iota(heads.begin(), heads.end(), next);
    next += std::ssize(heads);
    if (!heads.empty()) groups.push_back({static_cast<Index>(shift), std::move(heads)});
  }
  return groups;
}

class BlockwiseAttention final : public Attention {
 public:
  BlockwiseAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        blocks_(*config.recipe.shifted_blocks),
        groups_(heads_by_shift(blocks_)),
        dropout_(config.attention_dropout),
        place_(layer_place(layer)),
        query_key_value_(query_key_value(config, layer, source)) {}

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    kernels::AttentionPattern pattern = pattern_;
    pattern.dropout = context.dropout(dropout_, place_);
    const AttentionRows& rows = *in.shared.rows_without_globals;
    const auto projected = ops::project_heads(context, x, query_key_value_,
                                              std::ssize(pattern.heads), pattern.head_size);
    std::vector<Tensor> parts;
    std::vector<std::vector<Index>> places;
    for (const auto& [shift, heads] : groups_) {
      if (in.observer != nullptr) {
        const auto term = [&, shift = shift](Index n) {
          return shifted_block_term(blocks_, shift, n);
        };
        observe(context, in, pattern_, projected, {heads, term});
      }
      const auto spec = shifted_block_spec(pattern, blocks_, shift, rows);
      parts.push_back(ops::attention(context, spec, ops::take_heads(context, projected[0], heads),
                                     ops::take_heads(context, projected[1], heads),
                                     ops::take_heads(context, projected[2], heads)));
      places.push_back(heads);
    }
    return ops::join_heads(context, parts, places, pattern.head_size);
  }

 private:
  kernels::AttentionPattern pattern_;
  ShiftedBlockRecipe blocks_;
  std::vector<ShiftedHeads> groups_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
};

}  // namespace

std::unique_ptr<Attention> blockwise_attention(const EncoderConfig& config, Index layer,
                                               const LayerSource& source) {
  return std::make_unique<BlockwiseAttention>(config, layer, source);
}

}  // namespace longformer::models
