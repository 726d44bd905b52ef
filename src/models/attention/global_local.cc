#include "models/attention/global_local.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "ops/heads.h"

namespace longformer::models {

std::string description_of(const GlobalLocalRecipe& recipe) {
  return fmt::format(
      "blocks of {} tokens{}, and {} global tokens that see everything", recipe.block,
      recipe.staggers ? ", half a block earlier in every other layer" : "", recipe.globals);
}

std::vector<kernels::AttentionSpec> global_local_specs(const kernels::AttentionPattern& pattern,
                                                       const GlobalLocalRecipe& recipe,
                                                       const kernels::AttentionRows& rows,
                                                       bool is_staggered) {
  kernels::AttentionRows own, other;
  const Index tokens = rows.query_count();
  const auto texts = std::ssize(rows.documents);
  if (!rows.key_mask.empty()) {
    own.key_mask = rows.key_mask;
    own.key_mask.resize(at(tokens + texts * recipe.globals), 1);
    other.key_mask = own.key_mask;
  }
  const auto add = [](kernels::AttentionRows& to, kernels::Range queries, kernels::Range keys) {
    to.documents.push_back({.query_begin = queries.begin,
                            .query_count = queries.end - queries.begin,
                            .key_begin = keys.begin,
                            .key_count = keys.end - keys.begin});
  };
  const auto globals_of = [&](Index text) {
    const Index begin = tokens + text * recipe.globals;
    return kernels::Range{begin, begin + recipe.globals};
  };
  const Index earlier = is_staggered ? recipe.block / 2 : 0;
  for (Index text = 0; text < texts; ++text) {
    const Index first = rows.documents[at(text)].query_begin;
    const kernels::Range all = {first, first + rows.documents[at(text)].query_count};
    for (Index begin = all.begin - earlier; begin < all.end; begin += recipe.block) {
      const kernels::Range block = {std::max(begin, all.begin),
                                    std::min(begin + recipe.block, all.end)};
      add(own, block, block);
    }
    add(other, all, globals_of(text));
  }
  for (Index text = 0; text < texts; ++text) {
    const Index first = rows.documents[at(text)].query_begin;
    add(own, globals_of(text), globals_of(text));
    add(other, globals_of(text), {first, first + rows.documents[at(text)].query_count});
  }
  return {{pattern, kernels::shared(std::move(own))}, {pattern, kernels::shared(std::move(other))}};
}

namespace {

class GlobalLocalAttention final : public Attention {
 public:
  GlobalLocalAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        recipe_(*config.recipe.global_local),
        is_staggered_(recipe_.is_staggered(layer)),
        dropout_(config.attention_dropout),
        place_(layer_place(layer)),
        query_key_value_(query_key_value(config, layer, source)) {}

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    require(in.observer == nullptr,
            "attention: expected another encoder than that of PegasusX, whose probabilities over "
            "blocks and global tokens are not shown");
    kernels::AttentionPattern pattern = pattern_;
    pattern.dropout = context.dropout(dropout_, place_);
    const auto heads = static_cast<Index>(pattern_.heads.size());
    const auto projected =
        ops::project_heads(context, x, query_key_value_, heads, pattern_.head_size);
    std::vector<ops::KeyGroup> groups;
    for (auto& spec :
         global_local_specs(pattern, recipe_, *in.shared.rows_without_globals, is_staggered_)) {
      groups.push_back({.spec = std::move(spec), .key = projected[1], .value = projected[2]});
    }
    return ops::attention_over(context, projected[0], groups);
  }

 private:
  kernels::AttentionPattern pattern_;
  GlobalLocalRecipe recipe_;
  bool is_staggered_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
};

}  // namespace

std::unique_ptr<Attention> global_local_attention(const EncoderConfig& config, Index layer,
                                                  const LayerSource& source) {
  return std::make_unique<GlobalLocalAttention>(config, layer, source);
}

GlobalRows::GlobalRows(const EncoderConfig& config, const LayerSource& source) {
  table_.words = embedding(source, "embeddings.global.weight",
                           {config.recipe.global_local->globals, config.hidden_size});
}

Tensor GlobalRows::appended(const ops::Context& context, const Tensor& x, Index texts) const {
  std::vector<std::int32_t> ids;
  for (Index text = 0; text < texts; ++text) {
    for (Index row = 0; row < table_.words.rows(); ++row) {
      ids.push_back(static_cast<std::int32_t>(row));
    }
  }
  const std::array parts = {
      x, ops::embed(context, table_, {.words = ids, .positions = {}, .types = {}})};
  return ops::joined_rows(context, parts);
}

Tensor GlobalRows::dropped(const ops::Context& context, const Tensor& x, Index n) {
  std::vector<Index> rows(at(n));
  std::iota(rows.begin(), rows.end(), 0);
  return ops::select_rows(context, x, rows);
}

}  // namespace longformer::models
