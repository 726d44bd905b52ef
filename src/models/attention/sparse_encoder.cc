#include "models/attention/sparse_encoder.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "models/attention/attention.h"
#include "ops/attention.h"
#include "ops/heads.h"

namespace longformer::models {
namespace {

using kernels::AttentionRows;
using kernels::AttentionSpec;
using kernels::HeadPattern;

/// Whether a token of a text of n tokens is a column of its block. Columns are counted from the end
/// of the block, so that the last one, which may be cut, has them too.
bool is_column(const SparseConfig& sparse, const SparseHeads& heads, Index token, Index n) {
  const Index end = std::min((token / sparse.stride + 1) * sparse.stride, n);
  const Index skipped = sparse.stride - sparse.summary - heads.column;
  const Index place = end - 1 - token - skipped;
  return place >= 0 && place < sparse.summary;
}

/// The texts as rows of a part, in which every query stands so many tokens farther behind.
AttentionRows rows_moved_by(Index tokens, const AttentionRows& rows) {
  AttentionRows moved;
  moved.documents = rows.documents;
  moved.key_mask = rows.key_mask;
  for (kernels::AttentionDocument& text : moved.documents) text.query_offset = tokens;
  return moved;
}

/// The columns are global keys, among which those of a token's own block count once.
AttentionRows column_rows(const SparseConfig& sparse, const SparseHeads& heads,
                          const AttentionRows& rows) {
  AttentionRows columns = rows_moved_by(0, rows);
  for (kernels::AttentionDocument& text : columns.documents) {
    const Index n = text.key_count;
    for (Index token = 0; token < n; ++token) {
      const Index row = text.key_begin + token;
      const bool is_masked = !rows.key_mask.empty() && rows.key_mask[at(row)] == 0;
      if (!is_masked && is_column(sparse, heads, token, n)) columns.global_keys.push_back(row);
    }
    // Queries behind all keys have no other key in their window.
    if (!heads.sees_near) text.query_offset = n;
  }
  return columns;
}

}  // namespace

std::vector<AttentionSpec> sparse_specs(kernels::AttentionPattern pattern,
                                        const SparseConfig& sparse, const SparseHeads& heads,
                                        const AttentionRows& rows) {
  std::vector<AttentionSpec> specs;
  const auto add = [&](const HeadPattern& head, AttentionRows part) {
    pattern.heads.assign(heads.heads.size(), head);
    specs.push_back({pattern, kernels::shared(std::move(part))});
  };
  const Index stride = sparse.stride;
  if (sparse.pattern == SparsePattern::fixed) {
    const HeadPattern own = heads.sees_near ? HeadPattern{.block = stride} : HeadPattern{};
    add(own, heads.sees_far ? column_rows(sparse, heads, rows) : rows_moved_by(0, rows));
    return specs;
  }
  if (!heads.sees_far) {
    add({.reach_left = stride - 1, .reach_right = stride - 1}, rows_moved_by(0, rows));
    return specs;
  }
  add({.reach_left = kernels::kUnlimitedReach,
       .reach_right = kernels::kUnlimitedReach,
       .dilation = stride},
      rows_moved_by(0, rows));
  if (!heads.sees_near) return specs;
  // The token itself is a far key already.
  add({.reach_left = stride - 2}, rows_moved_by(-1, rows));
  add({.reach_right = stride - 2}, rows_moved_by(1, rows));
  return specs;
}

ops::ScoreTerm sparse_term(const SparseConfig& sparse, const SparseHeads& heads, Index n) {
  return [sparse, heads, n](Index query, Index key) {
    const bool is_fixed = sparse.pattern == SparsePattern::fixed;
    const bool is_near = is_fixed ? query / sparse.stride == key / sparse.stride
                                  : std::abs(query - key) < sparse.stride;
    const bool is_far =
        is_fixed ? is_column(sparse, heads, key, n) : (query - key) % sparse.stride == 0;
    const bool sees = (heads.sees_near && is_near) || (heads.sees_far && is_far);
    return sees ? 0.0f : -std::numeric_limits<float>::infinity();
  };
}

namespace {

class SparseEncoderAttention final : public Attention {
 public:
  SparseEncoderAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        sparse_(*config.recipe.sparse),
        groups_(sparse_heads(sparse_, layer, config.heads)),
        dropout_(config.attention_dropout),
        place_(layer_place(layer)),
        query_key_value_(query_key_value(config, layer, source)) {}

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    const auto projected = ops::project_heads(context, x, query_key_value_,
                                              std::ssize(pattern_.heads), pattern_.head_size);
    for (const SparseHeads& group : groups_) {
      if (in.observer == nullptr) break;
      const auto term = [&](Index n) { return sparse_term(sparse_, group, n); };
      observe(context, in, pattern_, projected, {group.heads, term});
    }
    std::vector<Tensor> results;
    std::vector<std::vector<Index>> places;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      results.push_back(attend(context, group, projected, *in.shared.rows_without_globals));
      places.push_back(groups_[group].heads);
    }
    if (results.size() == 1) return results[0];
    return ops::join_heads(context, results, places, pattern_.head_size);
  }

 private:
  Tensor attend(const ops::Context& context, std::size_t group, std::vector<Tensor> projected,
                const AttentionRows& rows) const {
    const SparseHeads& heads = groups_[group];
    if (groups_.size() > 1) {
      for (Tensor& part : projected) part = ops::take_heads(context, part, heads.heads);
    }
    kernels::AttentionPattern pattern = pattern_;
    pattern.dropout = context.dropout(dropout_, place_ + (std::uint64_t{group} << 32));
    std::vector<ops::KeyGroup> parts;
    for (AttentionSpec& spec : sparse_specs(std::move(pattern), sparse_, heads, rows)) {
      parts.push_back({.spec = std::move(spec), .key = projected[1], .value = projected[2]});
    }
    return ops::attention_over(context, projected[0], parts);
  }

  kernels::AttentionPattern pattern_;
  SparseConfig sparse_;
  std::vector<SparseHeads> groups_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
};

}  // namespace

std::unique_ptr<Attention> sparse_attention(const EncoderConfig& config, Index layer,
                                            const LayerSource& source) {
  return std::make_unique<SparseEncoderAttention>(config, layer, source);
}

}  // namespace longformer::models
