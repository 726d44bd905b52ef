// Self-attention of a Funnel Transformer: scores of contents, of distances in both directions, and
// of kinds of tokens; the first row of a document has the first alone. Where a block begins, the
// rows that read are fewer than those that are read.
#include <utility>

#include "models/attention/attention.h"
#include "ops/attention.h"
#include "ops/relative_terms.h"

namespace longformer::models {
namespace {

class FunnelAttention final : public Attention {
 public:
  FunnelAttention(const EncoderConfig& config, const std::string& name, std::uint64_t place,
                  const LayerSource& source)
      : pattern_{.head_size = config.head_size(),
                 .heads = config.pattern(0),
                 .relative_positions = true},
        dropout_(config.attention_dropout),
        place_(place),
        query_(linear(source, name + "attention.q_head", {config.query_width(), config.hidden_size},
                      {.has_bias = false})),
        key_value_(key_and_value(config, name, source)) {
    const Init init = Init::uniform(0, config.recipe.funnel->term_range);
    const Index heads = config.heads, size = config.head_size();
    const auto term = [&](const char* part, const Shape& shape) {
      return source.weights.get_fp32(name + "attention." + part, shape, init);
    };
    content_bias_ = term("r_w_bias", {heads, size});
    position_bias_ = term("r_r_bias", {heads, size});
    distance_kernel_ = term("r_kernel", {config.hidden_size, heads, size});
    kinds_.bias = term("r_s_bias", {heads, size});
    kinds_.segments = term("seg_embed", {2, heads, size});
  }

  /// ((q + u)·k + (q + v)·r + (q + s)·g) / √d.
  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    const Tensor& read = in.source != nullptr ? *in.source : x;
    const Index heads = std::ssize(pattern_.heads), size = pattern_.head_size;
    const Tensor query = ops::project_heads(context, x, query_, heads, size)[0];
    const auto projected = ops::project_heads(context, read, key_value_, heads, size);
    const ops::RelativePositions relative = {
        .content_bias = content_bias_,
        .position_bias = position_bias_,
        .keys = ops::table_heads(context, *in.shared.distance_table, distance_kernel_),
        .kind_scores = ops::kind_scores(context, query, kinds_, in.shared.kind_relations)};
    ops::AttentionSpec spec = {pattern_, in.shared.rows};
    spec.dropout = context.dropout(dropout_, place_);
    if (in.observer != nullptr) {
      ops::attention_probabilities(context, spec,
                                   {.query = query, .key = projected[0], .relative = &relative},
                                   in.observer->heads, in.observer->observe);
    }
    return ops::attention(context, spec, query, projected[0], projected[1], &relative);
  }

 private:
  static ops::Linear key_and_value(const EncoderConfig& config, const std::string& name,
                                   const LayerSource& source) {
    const std::array names = {name + "attention.k_head", name + "attention.v_head"};
    return stacked_linear(source, names, {config.query_width(), config.hidden_size});
  }

  kernels::AttentionPattern pattern_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_, key_value_;
  /// u, v, and the kernel that makes relative keys of sines and cosines of distances.
  Tensor content_bias_, position_bias_, distance_kernel_;
  /// s and g.
  ops::KindWeights kinds_;
};

}  // namespace

std::unique_ptr<Attention> funnel_attention(const EncoderConfig& config, const std::string& name,
                                            std::uint64_t place, const LayerSource& source) {
  return std::make_unique<FunnelAttention>(config, name, place, source);
}

}  // namespace longformer::models
