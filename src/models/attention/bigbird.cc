#include "models/attention/bigbird.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "models/attention/attention.h"
#include "models/attention/random_blocks.h"
#include "ops/heads.h"

namespace longformer::models {
namespace {

using kernels::AttentionDocument;
using kernels::AttentionPattern;
using kernels::AttentionRows;
using kernels::AttentionSpec;
using kernels::Range;

/// A text of blocks: its rows, and where its second and its last block begin.
struct BlockText {
  Range rows;
  Index second, last;
};

class BlockTexts {
 public:
  BlockTexts(const BlockRecipe& blocks, const AttentionRows& rows) {
    for (const AttentionDocument& document : rows.documents) {
      const Index begin = document.query_begin, count = document.query_count;
      const Index last = begin + (kernels::divide_up(count, blocks.size) - 1) * blocks.size;
      const bool is_dense = count <= most_dense_tokens(blocks);
      texts_.push_back({{begin, begin + count},
                        is_dense ? begin + count : begin + blocks.size,
                        is_dense ? begin + count : last});
      any_ = any_ || !is_dense;
    }
  }
  /// Whether some text is not dense.
  bool any() const { return any_; }
  /// A dense text is all first block.
  const std::vector<BlockText>& all() const { return texts_; }

 private:
  std::vector<BlockText> texts_;
  bool any_ = false;
};

AttentionRows rows_like(const AttentionRows& rows) {
  AttentionRows like;
  like.key_mask = rows.key_mask;
  return like;
}

/// Appends queries that see the given keys; without keys they see nothing in this part.
void add(AttentionRows& rows, Range queries, Range keys, Index offset = 0) {
  if (queries.begin == queries.end) return;
  rows.documents.push_back({.query_begin = queries.begin,
                            .query_count = queries.end - queries.begin,
                            .key_begin = keys.begin,
                            .key_count = keys.end - keys.begin,
                            .query_offset = offset});
}

AttentionSpec spec_of(const AttentionPattern& pattern, AttentionRows rows) {
  return {pattern, kernels::shared(std::move(rows))};
}

}  // namespace

std::string description_of(const BlockRecipe& blocks) {
  return fmt::format(
      "blocks of {} tokens: a token's own, those beside it, the first and the last; {} more are "
      "drawn while training",
      blocks.size, blocks.random);
}

Index most_dense_tokens(const BlockRecipe& blocks) { return (5 + 2 * blocks.random) * blocks.size; }

std::vector<AttentionSpec> block_specs(const AttentionPattern& dense, const BlockRecipe& blocks,
                                       const std::shared_ptr<const AttentionRows>& rows,
                                       bool has_random_blocks) {
  const BlockTexts texts(blocks, *rows);
  if (!texts.any()) return {{dense, rows}};
  AttentionRows everything = rows_like(*rows), window = rows_like(*rows), first = rows_like(*rows);
  for (const auto& [all, second, last] : texts.all()) {
    const Range none = {all.end, all.end};
    const Range begin = {all.begin, second}, middle = {second, last}, end = {last, all.end};
    for (AttentionRows* part : {&everything, &window, &first}) {
      const bool sees_all = part == &everything;
      add(*part, begin, sees_all ? all : none);
      if (sees_all) add(*part, middle, none);
      if (part == &window) add(*part, middle, {second, all.end});
      if (part == &first) add(*part, middle, begin);
      add(*part, end, sees_all ? all : none, sees_all ? last - all.begin : 0);
    }
    for (Index row = last; row < all.end; ++row) {
      if (rows->key_mask.empty() || rows->key_mask[row] != 0) window.global_keys.push_back(row);
    }
  }
  AttentionPattern neighbours = dense, block = dense;
  std::fill(neighbours.heads.begin(), neighbours.heads.end(),
            kernels::HeadPattern{.reach_left = 1, .reach_right = 1, .block = blocks.size});
  // The first block is seen once, and once for each block that nobody draws.
  const auto times = static_cast<float>(1 + (has_random_blocks ? 0 : blocks.random));
  block.log_weight = std::log(times);
  return {spec_of(dense, std::move(everything)), spec_of(neighbours, std::move(window)),
          spec_of(block, std::move(first))};
}

ops::ScoreTerm block_term(const BlockRecipe& blocks, Index n) {
  if (n <= most_dense_tokens(blocks)) return {};
  const Index last = kernels::divide_up(n, blocks.size) - 1;
  const auto first_weight = static_cast<float>(std::log(1.0 + static_cast<double>(blocks.random)));
  return [size = blocks.size, last, first_weight](Index query, Index key) {
    const Index from = query / size, to = key / size;
    if (from == 0 || from == last) return 0.0f;
    if (to == 0) return first_weight;
    const bool sees = to == last || std::abs(from - to) <= 1;
    return sees ? 0.0f : -std::numeric_limits<float>::infinity();
  };
}

namespace {

/// The spec of gathered keys, of which each block between the first and the last has
/// BlockRecipe::random blocks in the order of texts and blocks.
AttentionSpec random_spec(const AttentionPattern& dense, const BlockRecipe& blocks,
                          const AttentionRows& rows) {
  AttentionRows drawn;
  Index next = 0;
  const Index keys = blocks.random * blocks.size;
  const BlockTexts texts(blocks, rows);
  for (const auto& [all, second, last] : texts.all()) {
    add(drawn, {all.begin, second}, {next, next});
    for (Index row = second; row < last; row += blocks.size, next += keys) {
      add(drawn, {row, row + blocks.size}, {next, next + keys});
    }
    add(drawn, {last, all.end}, {next, next});
  }
  return spec_of(dense, std::move(drawn));
}

class BigBirdAttention final : public Attention {
 public:
  BigBirdAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        blocks_(*config.recipe.blocks),
        plan_{.block = blocks_.size,
              .count = blocks_.random,
              .heads = config.heads,
              .longest = config.max_position_embeddings,
              .seed = static_cast<std::uint32_t>(layer)},
        dropout_(config.attention_dropout),
        place_(layer_place(layer)),
        query_key_value_(query_key_value(config, layer, source)) {}

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    AttentionPattern dense = pattern_;
    dense.dropout = context.dropout(dropout_, place_);
    const auto projected =
        ops::project_heads(context, x, query_key_value_, plan_.heads, pattern_.head_size);
    const auto& rows = in.shared.rows_without_globals;
    if (in.observer != nullptr) observe(context, {dense, rows}, projected, *in.observer);
    const bool draws = blocks_.draws_in_training && blocks_.random > 0 && context.dropout_seed;
    std::vector<ops::KeyGroup> groups;
    for (const AttentionSpec& spec : block_specs(dense, blocks_, rows, draws)) {
      groups.push_back({.spec = spec, .key = projected[1], .value = projected[2]});
    }
    if (draws && groups.size() > 1)
      groups.push_back(random_group(context, dense, *rows, projected));
    return ops::attention_over(context, projected[0], groups);
  }

 private:
  /// The keys that heads draw, one after the other.
  ops::KeyGroup random_group(const ops::Context& context, const AttentionPattern& dense,
                             const AttentionRows& rows, std::span<const Tensor> projected) const {
    require(rows.key_mask.empty(),
            "bigbird: expected no masked tokens while random blocks are drawn, found some");
    std::vector<std::vector<Index>> by_head(static_cast<std::size_t>(plan_.heads));
    const BlockTexts texts(blocks_, rows);
    for (const auto& [all, second, last] : texts.all()) {
      if (second == all.end) continue;
      const Index blocks = (last - all.begin) / blocks_.size + 1;
      const std::vector<Index> drawn = random_blocks(plan_, blocks);
      const std::size_t of_head = drawn.size() / by_head.size();
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        const Index begin = all.begin + drawn[i] * blocks_.size;
        std::vector<Index>& to = by_head[i / of_head];
        for (Index row = begin; row < begin + blocks_.size; ++row) to.push_back(row);
      }
    }
    std::vector<Index> joined;
    for (const auto& of_head : by_head) joined.insert(joined.end(), of_head.begin(), of_head.end());
    const auto chosen = std::make_shared<const std::vector<Index>>(std::move(joined));
    return {.spec = random_spec(dense, blocks_, rows),
            .key = ops::take_head_rows(context, projected[1], chosen),
            .value = ops::take_head_rows(context, projected[2], chosen)};
  }

  void observe(const ops::Context& context, const AttentionSpec& spec,
               std::span<const Tensor> projected, const HeadObserver& observer) const {
    const auto term = [this](Index n) { return block_term(blocks_, n); };
    ops::attention_probabilities(context, spec,
                                 {.query = projected[0], .key = projected[1], .score_term = term},
                                 observer.heads, observer.observe);
  }

  AttentionPattern pattern_;
  BlockRecipe blocks_;
  RandomBlockPlan plan_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
};

}  // namespace

std::unique_ptr<Attention> bigbird_attention(const EncoderConfig& config, Index layer,
                                             const LayerSource& source) {
  if (!config.recipe.blocks) return dense_attention(config, layer, source);
  return std::make_unique<BigBirdAttention>(config, layer, source);
}

}  // namespace longformer::models
