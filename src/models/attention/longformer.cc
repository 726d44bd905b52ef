// Longformer self-attention: a window, and global tokens with projections of their own (paper §3.1,
// docs/spec/attention.md#a4).
#include <vector>

#include "core/error.h"
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
      additions_.push_back(source.weights.low_rank(name, width, width));
      require(additions_.back().empty() || additions_.back().dropout == 0,
              OptionName("training.lora_dropout"),
              "expected 0 where projections of global tokens are targets, which are "
              "never made of all tokens, found {}",
              additions_.back().dropout);
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
    const ops::GlobalProjections global = global_projections(context);
    Tensor attended = [&] {
      const auto heads = static_cast<Index>(pattern_.heads.size());
      const auto projected =
          ops::project_heads(context, x, query_key_value_, heads, pattern_.head_size);
      if (in.observer != nullptr) {
        ops::attention_probabilities(
            context, spec,
            {.query = projected[0], .key = projected[1], .x = &x, .projections = &global},
            in.observer->heads, in.observer->observe);
      }
      return ops::attention(context, spec, projected[0], projected[1], projected[2]);
    }();
    ops::global_attention(context, spec, global, x, attended);
    return attended;
  }

 private:
  /// Projections with the additions of adapters.
  ops::GlobalProjections global_projections(const ops::Context& context) const {
    ops::GlobalProjections all = global_;
    Tensor* weights[] = {&all.query_weight, &all.key_weight, &all.value_weight};
    for (std::size_t i = 0; i < additions_.size(); ++i) {
      if (additions_[i].empty()) continue;
      *weights[i] = ops::adapted_weight(context, *weights[i], additions_[i]);
    }
    return all;
  }

  kernels::AttentionPattern pattern_;
  double dropout_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
  ops::GlobalProjections global_;
  /// Additions to query, key and value.
  std::vector<ops::LowRank> additions_;
};

}  // namespace

std::unique_ptr<Attention> longformer_attention(const EncoderConfig& config, Index layer,
                                                const LayerSource& source) {
  return std::make_unique<LongformerAttention>(config, layer, source);
}

}  // namespace longformer::models
