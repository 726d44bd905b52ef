// Self-attention of BERT and RoBERTa: the window covers everything.
#include "models/self_attention.h"

namespace longformer::models {
namespace {

class DenseAttention final : public SelfAttention {
 public:
  DenseAttention(const EncoderConfig& config, Index layer, const Checkpoint& weights, DType dtype)
      : config_(config),
        pattern_(window_pattern(config, kernels::kUnlimitedReach)),
        place_(dropout_places(layer).attention),
        query_key_value_(query_key_value(config, layer, weights, dtype)) {}

  Tensor forward(const ops::Context& context, const Tensor& x, const SharedRows& rows,
                 const HeadObserver* observer) const override {
    ops::AttentionSpec spec = {pattern_, rows};
    spec.dropout = context.dropout(config_.attention_dropout, place_);
    const auto projected =
        ops::project_heads(context, x, query_key_value_, config_.heads, config_.head_size());
    if (observer != nullptr) {
      ops::attention_probabilities(context, spec, {.query = projected[0], .key = projected[1]},
                                   observer->heads, observer->observe);
    }
    return ops::attention(context, spec, projected[0], projected[1], projected[2]);
  }

 private:
  EncoderConfig config_;
  kernels::AttentionPattern pattern_;
  std::uint64_t place_;
  ops::Linear query_key_value_;
};

}  // namespace

std::unique_ptr<SelfAttention> dense_attention(const EncoderConfig& config, Index layer,
                                               const Checkpoint& weights, DType dtype) {
  return std::make_unique<DenseAttention>(config, layer, weights, dtype);
}

}  // namespace longformer::models
