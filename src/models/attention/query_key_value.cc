#include "models/attention/query_key_value.h"

#include "ops/positions.h"

namespace longformer::models {
namespace {

ops::Linear projection(const LanguageModelConfig& config, Index layer, const LayerSource& source,
                       bool has_bias) {
  return linear(source, name_in(layer, "query_key_value"),
                {3 * config.heads * config.head_size, config.hidden_size}, {.has_bias = has_bias});
}

}  // namespace

QueryKeyValue::QueryKeyValue(const LanguageModelConfig& config, Index layer,
                             const LayerSource& source)
    : heads_(config.heads),
      head_size_(config.head_size),
      infused_(config.positions == Positions::infused),
      query_key_value_(projection(config, layer, source, config.attention_bias)) {
  if (infused_ && config.attention_bias) unbiased_ = projection(config, layer, source, false);
}

std::vector<Tensor> QueryKeyValue::project(const ops::Context& context, const Tensor& x,
                                           ops::WeightsAre weights) const {
  return ops::project_heads(context, x, query_key_value_, heads_, head_size_, weights);
}

std::vector<Tensor> QueryKeyValue::project(const ops::Context& context, const Tensor& x,
                                           const Tensor& table,
                                           std::span<const Index> places) const {
  std::vector<Tensor> projected = project(context, x);
  if (!infused_) return projected;
  // W(x + p) = Wx + Wp: the table is that of all documents, so it has fewer rows than they have.
  const auto positions = ops::project_heads(
      context, table, unbiased_ ? *unbiased_ : query_key_value_, heads_, head_size_);
  for (const std::size_t part : {std::size_t{0}, std::size_t{1}}) {
    projected[part] = ops::add_table_rows(context, projected[part], positions[part], places);
  }
  return projected;
}

}  // namespace longformer::models
