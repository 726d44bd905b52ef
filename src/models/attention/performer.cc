#include "models/attention/performer.h"

#include <utility>

#include "core/error.h"
#include "ops/embedding.h"
#include "ops/feature_attention.h"

namespace longformer::models {
namespace {

/// Sums over all keys that were read, [streams, H, numbers] fp32.
class ReadSums final : public LayerState {
 public:
  explicit ReadSums(Tensor sums) : sums(std::move(sums)) {}

  std::unique_ptr<LayerState> copy() const override {
    return std::make_unique<ReadSums>(sums.copied());
  }
  std::int64_t bytes() const override { return static_cast<std::int64_t>(sums.bytes()); }
  void reorder(std::span<const Index> sources) override {
    Shape shape = sums.shape();
    const Tensor rows = sums.reshaped({shape[0], sums.size() / shape[0]});
    shape[0] = std::ssize(sources);
    MemoryPool pool;
    sums = ops::select_rows({.memory = pool}, rows, sources).reshaped(shape);
  }
  std::vector<Tensor> saved() const override { return {sums}; }
  void restore(std::span<const Tensor> saved) override {
    require(saved.size() == 1 && saved[0].shape() == sums.shape() && saved[0].dtype() == DType::f32,
            "state: expected sums of features {} of fp32, found {} tensors{}",
            to_string(sums.shape()), saved.size(),
            saved.empty() ? "" : ", the first " + to_string(saved[0].shape()));
    sums = saved[0].copied();
  }

  Tensor sums;
};

}  // namespace

FeatureAttention::FeatureAttention(const LanguageModelConfig& config, Index layer,
                                   const LayerSource& source)
    : spec_{.map = config.features.map(config.head_size), .heads = config.heads, .causal = true},
      directions_(feature_directions(config.features, source.weights, name_in(layer, "features"),
                                     config.heads, config.head_size)),
      query_key_value_(config, layer, source) {}

std::unique_ptr<LayerState> FeatureAttention::start(DType /*dtype*/, Index streams) const {
  return std::make_unique<ReadSums>(kernels::empty_feature_sums(spec_, streams));
}

Tensor FeatureAttention::forward(const ops::Context& context, const Tensor& x,
                                 const LayerInput& in) const {
  if (in.observer != nullptr) {
    observe_by_values(context, *this, x, in, {spec_.heads, spec_.map.head_size});
  }
  auto projected =
      query_key_value_.is_infused()
          ? query_key_value_.project(context, x, in.shared.distances(), in.shared.places)
          : query_key_value_.project(context, x);
  if (in.values != nullptr) projected[2] = *in.values;
  kernels::FeatureAttentionSpec spec = spec_;
  auto* read = static_cast<ReadSums*>(in.state);
  spec.rows = in.shared.rows;
  return ops::feature_attention(context, spec, projected, directions_,
                                read == nullptr ? nullptr : &read->sums);
}

namespace {

/// The attention of an encoder looks at all tokens, in both directions.
class PerformerAttention final : public Attention {
 public:
  PerformerAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : spec_{.map = config.features->map(config.head_size()), .heads = config.heads},
        directions_(feature_directions(*config.features, source.weights,
                                       self_attention_name(layer) + "features", config.heads,
                                       config.head_size())),
        query_key_value_(query_key_value(config, layer, source)) {}

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    const auto projected =
        ops::project_heads(context, x, query_key_value_, spec_.heads, spec_.map.head_size);
    kernels::FeatureAttentionSpec spec = spec_;
    spec.rows = in.shared.rows;
    return ops::feature_attention(context, spec, projected, directions_);
  }

 private:
  kernels::FeatureAttentionSpec spec_;
  Tensor directions_;
  ops::Linear query_key_value_;
};

}  // namespace

std::unique_ptr<Attention> performer_attention(const EncoderConfig& config, Index layer,
                                               const LayerSource& source) {
  return std::make_unique<PerformerAttention>(config, layer, source);
}

}  // namespace longformer::models
