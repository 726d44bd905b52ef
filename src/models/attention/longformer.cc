// Longformer self-attention: a window, and global tokens with projections of their own (paper §3.1,
// docs/spec/attention.md#a4).
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
    const auto projection = [&](const std::string& part, Tensor& weight, Tensor& bias,
                                kernels::LowRankMatrix& addition) {
      const std::string name = self_attention_name(layer) + part + "_global";
      additions_.push_back(source.weights.low_rank(name, width, width));
      require(additions_.back().empty() || additions_.back().dropout == 0,
              OptionName("training.lora_dropout"),
              "expected 0 where projections of global tokens are targets, which are "
              "never made of all tokens, found {}",
              additions_.back().dropout);
      AddedMatrix read = matrix_fp32(source, name, {.out = width, .in = width});
      weight = std::move(read.matrix);
      addition = {.a = read.addition.a, .b = read.addition.b, .scale = read.addition.scale};
      bias = source.weights.get_fp32(name + ".bias", {width}, Init::zeros());
    };
    projection("query", global_.query_weight, global_.query_bias, global_.query_addition);
    projection("key", global_.key_weight, global_.key_bias, global_.key_addition);
    projection("value", global_.value_weight, global_.value_bias, global_.value_addition);
    if (config.edges.empty()) return;
    std::string table = self_attention_name(layer);
    table.replace(table.size() - 1, 1, kEdgeTable);
    const auto heads = static_cast<Index>(pattern_.heads.size());
    edge_keys_ = source.weights.get_fp32(
        table, {heads, std::ssize(config.edges), pattern_.head_size}, Init::zeros());
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
      const auto edges = edges_of(spec, in.shared, projected);
      if (in.observer != nullptr) {
        require(!edges,
                "attention: expected a text without edges, whose probabilities are shown, found "
                "some");
        ops::attention_probabilities(
            context, spec,
            {.query = projected[0], .key = projected[1], .x = &x, .projections = &global},
            in.observer->heads, in.observer->observe);
      }
      const ops::KeyGroup window = {.spec = spec, .key = projected[1], .value = projected[2]};
      return ops::attention_over(context, projected[0], {&window, 1},
                                 edges ? std::span(&*edges, 1) : std::span<ops::EdgeGroup>());
    }();
    ops::global_attention(context, spec, global, x, attended);
    return attended;
  }

 private:
  /// Keys along edges, where there are some that windows do not have.
  std::optional<ops::EdgeGroup> edges_of(const ops::AttentionSpec& spec, const SharedInput& shared,
                                         std::span<const Tensor> projected) const {
    if (!shared.edges) return std::nullopt;
    auto rows = edges_beyond_windows(*shared.edges, pattern_.heads[0], *shared.rows);
    if (rows->edges() == 0) return std::nullopt;
    const auto heads = static_cast<Index>(pattern_.heads.size());
    return ops::EdgeGroup{.spec = {.heads = heads,
                                   .head_size = pattern_.head_size,
                                   .scale = 1 / std::sqrt(static_cast<float>(pattern_.head_size)),
                                   .rows = std::move(rows),
                                   .dropout = spec.dropout},
                          .key = projected[1],
                          .value = projected[2],
                          .label_keys = edge_keys_};
  }

  /// Projections with the additions of an adapter that is trained.
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
  /// Keys of the kinds of edges, [H, kinds, d].
  std::optional<Tensor> edge_keys_;
  /// Trained additions to query, key and value.
  std::vector<ops::LowRank> additions_;
};

}  // namespace

std::unique_ptr<Attention> longformer_attention(const EncoderConfig& config, Index layer,
                                                const LayerSource& source) {
  return std::make_unique<LongformerAttention>(config, layer, source);
}

}  // namespace longformer::models
