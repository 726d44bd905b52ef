// Longformer self-attention: a window, and global tokens with projections of their own (paper §3.1,
// spec.md A.4).
#include "models/attention/attention.h"

namespace longformer::models {
namespace {

class LongformerAttention final : public Attention {
 public:
  LongformerAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        dropout_(config.attention_dropout),
        place_(layer_place(layer)),
        query_key_value_(query_key_value(config, layer, source)) {
    const Index width = config.hidden_size;
    const auto projection = [&](const std::string& part, Tensor& weight, Tensor& bias) {
      const std::string name = self_attention_name(layer) + part + "_global";
      weight = source.weights.get_fp32(name + ".weight", {width, width},
                                       Init::normal(source.initializer_range));
      bias = source.weights.get_fp32(name + ".bias", {width}, Init::zeros());
    };
    projection("query", global_.query_weight, global_.query_bias);
    projection("key", global_.key_weight, global_.key_bias);
    projection("value", global_.value_weight, global_.value_bias);
  }

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    ops::AttentionSpec spec = {pattern_, in.shared.rows};
    spec.dropout = context.dropout(dropout_, place_);
    Tensor attended = [&] {
      const auto heads = static_cast<Index>(pattern_.heads.size());
      const auto projected =
          ops::project_heads(context, x, query_key_value_, heads, pattern_.head_size);
      if (in.observer != nullptr) {
        ops::attention_probabilities(
            context, spec,
            {.query = projected[0], .key = projected[1], .x = &x, .projections = &global_},
            in.observer->heads, in.observer->observe);
      }
      return ops::attention(context, spec, projected[0], projected[1], projected[2]);
    }();
    ops::global_attention(context, spec, global_, x, attended);
    return attended;
  }

 private:
  kernels::AttentionPattern pattern_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
  ops::GlobalProjections global_;
};

}  // namespace

std::unique_ptr<Attention> longformer_attention(const EncoderConfig& config, Index layer,
                                                const LayerSource& source) {
  return std::make_unique<LongformerAttention>(config, layer, source);
}

}  // namespace longformer::models
