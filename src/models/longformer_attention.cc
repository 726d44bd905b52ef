// Longformer self-attention (paper §3.1, spec.md A.4).
#include "models/self_attention.h"

namespace longformer::models {
namespace {

class LongformerAttention final : public SelfAttention {
 public:
  LongformerAttention(const EncoderConfig& config, Index layer, const Checkpoint& weights,
                      DType dtype)
      : config_(config),
        pattern_(window_pattern(config, config.windows[static_cast<std::size_t>(layer)] / 2)),
        place_(dropout_places(layer).attention),
        query_key_value_(query_key_value(config, layer, weights, dtype)) {
    const Index width = config.hidden_size;
    const auto projection = [&](const std::string& part, Tensor& weight, Tensor& bias) {
      const std::string name = self_attention_name(layer) + part + "_global";
      weight = weights.get_fp32(name + ".weight", {width, width});
      bias = weights.get_fp32(name + ".bias", {width});
    };
    projection("query", global_.query_weight, global_.query_bias);
    projection("key", global_.key_weight, global_.key_bias);
    projection("value", global_.value_weight, global_.value_bias);
  }

  Tensor forward(const ops::Context& context, const Tensor& x, const SharedRows& rows,
                 const HeadObserver* observer) const override {
    ops::AttentionSpec spec = {pattern_, rows};
    spec.dropout = context.dropout(config_.attention_dropout, place_);
    Tensor attended = [&] {
      const auto projected =
          ops::project_heads(context, x, query_key_value_, config_.heads, config_.head_size());
      if (observer != nullptr) {
        ops::attention_probabilities(
            context, spec,
            {.query = projected[0], .key = projected[1], .x = &x, .projections = &global_},
            observer->heads, observer->observe);
      }
      return ops::attention(context, spec, projected[0], projected[1], projected[2]);
    }();
    ops::global_attention(context, spec, global_, x, attended);
    return attended;
  }

 private:
  EncoderConfig config_;
  kernels::AttentionPattern pattern_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
  ops::GlobalProjections global_;
};

}  // namespace

std::unique_ptr<SelfAttention> longformer_attention(const EncoderConfig& config, Index layer,
                                                    const Checkpoint& weights, DType dtype) {
  return std::make_unique<LongformerAttention>(config, layer, weights, dtype);
}

}  // namespace longformer::models
