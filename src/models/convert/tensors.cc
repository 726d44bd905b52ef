#include "models/convert/tensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "kernels/rows.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models {
namespace {

using formats::quote;

/// The tensors of the source, taken out one by one, so that what is left over is known.
class SourceTensors {
 public:
  explicit SourceTensors(const Weights& weights) : weights_(weights) {
    for (const std::string& name : weights_.names()) {
      if (!weights_.is_buffer(name)) left_.insert(name);
    }
  }

  bool has(const std::string& name) const { return weights_.has(name); }
  void drop(const std::string& name) { left_.erase(name); }
  const std::set<std::string>& left() const { return left_; }
  const std::string& path() const { return weights_.path(); }

  Tensor take(const std::string& name, const Shape& shape) {
    drop(name);
    return weights_.stored(name, shape);
  }
  Tensor take(const std::string& name) { return take(name, weights_.shape(name)); }
  Tensor read(const std::string& name) const { return weights_.stored(name, weights_.shape(name)); }

  /// Whatever was not taken belongs to a head that Longformer has not.
  void require_empty(const std::string& architecture) const {
    if (left_.empty()) return;
    fail("{}: expected an encoder, with a head that Longformer has or none, found a tensor {}{}{}",
         weights_.path(), quote(*left_.begin()), architecture.empty() ? "" : " of ", architecture);
  }

 private:
  const Weights& weights_;
  std::set<std::string> left_;
};

/// Collects the target's tensors in the order of the model.
class Converter {
 public:
  Converter(const EncoderConfig& config, const Weights& weights, const WeightPlan& plan)
      : config_(config),
        traits_(config.traits()),
        target_(*family_of("longformer", "").encoder),
        plan_(plan),
        weights_(weights),
        source_(weights) {}

  ConvertedWeights convert() {
    require(
        config_.embedding_size == config_.hidden_size,
        "{}: expected embeddings as wide as the layers ({}), since Longformer has no projection "
        "between them, found a width of {} (convert a larger model of this family, or a BERT)",
        source_.path(), config_.hidden_size, config_.embedding_size);
    const HeadPlan head = plan_.head(config_, weights_);
    prefix_ = head.has_head ? "longformer." : "";
    for (const auto& [name, shape] : encoder_tensors(config_)) encoder_tensor(name, shape);
    // Longformer classifies with a layer of its own where BERT has its pooler.
    const bool moves_pooler =
        std::any_of(head.layers.begin(), head.layers.end(),
                    [](const HeadPlan::Layer& layer) { return layer.from == kPooler; });
    if (source_.has("pooler.dense.weight") && !moves_pooler) pooler(head);
    for (const HeadPlan::Layer& layer : head.layers) move(layer);
    if (head.is_masked_lm) config_.has_global_projections() ? untie() : masked_lm();
    for (const std::string_view name : traits_.unread) source_.drop(std::string(name));
    // Buffers of old files.
    for (const char* name : {"embeddings.position_ids", "embeddings.token_type_ids"}) {
      source_.drop(name);
    }
    if (config_.has_global_projections()) keep_the_rest();
    source_.require_empty(config_.architecture);
    const bool has_own_name = config_.architecture.starts_with("Longformer");
    return {.tensors = std::move(result_),
            .architecture = has_own_name ? config_.architecture
                                         : fmt::format("Longformer{}", head.class_ending)};
  }

 private:
  void add(const std::string& name, const Tensor& tensor) {
    if (!plan_.dtype) {
      result_.emplace_back(name, tensor);
      return;
    }
    try {
      result_.emplace_back(name, tensor.to(*plan_.dtype));
    } catch (const Error& error) {
      fail("tensor {}: {}", quote(name), error.what());
    }
  }

  void encoder_tensor(const std::string& name, const Shape& shape) {
    Tensor tensor = source_.take(name, shape);
    if (name == kPositionEmbeddings) {
      tensor = kernels::tile_rows(tensor, {.source_reserved = config_.first_position(),
                                           .target_reserved = config_.pad_token_id + 1,
                                           .count = plan_.max_positions});
    }
    add(prefix_ + name, tensor);
    // All types of tokens are alike where the source knows none.
    if (!traits_.has_token_types && name == kPositionEmbeddings) {
      add(prefix_ + "embeddings.token_type_embeddings.weight",
          Tensor::zeros({config_.type_vocab_size, config_.hidden_size}, DType::f32)
              .to(tensor.dtype()));
    }
    if (config_.has_global_projections()) return;
    for (const std::string projection : {"self.query", "self.key", "self.value"}) {
      const std::size_t place = name.find(projection);
      if (place == std::string::npos) continue;
      std::string global = prefix_ + name;
      global.insert(prefix_.size() + place + projection.size(), "_global");
      add(global, tensor);
    }
  }

  /// A Longformer's head may be of any kind: nothing about it changes.
  void keep_the_rest() {
    const std::set<std::string> names = source_.left();
    for (const std::string& name : names) add(name, source_.take(name));
  }

  void pooler(const HeadPlan& head) {
    const Index width = config_.hidden_size;
    const Tensor weight = source_.take("pooler.dense.weight", {width, width});
    const Tensor bias = source_.take("pooler.dense.bias", {width});
    if (!head.keeps_pooler) return;
    add(prefix_ + "pooler.dense.weight", weight);
    add(prefix_ + "pooler.dense.bias", bias);
  }

  void move(const HeadPlan::Layer& layer) {
    const Tensor matrix = source_.take(layer.from + ".weight");
    add(layer.to + ".weight", matrix);
    if (layer.has_any_shape) {
      if (layer.has_bias) add(layer.to + ".bias", source_.take(layer.from + ".bias"));
      return;
    }
    require(matrix.shape().size() == 2 && matrix.columns() == config_.hidden_size,
            "{}: expected a tensor {}.weight of {} columns, found {}", source_.path(), layer.from,
            config_.hidden_size, to_string(matrix.shape()));
    if (!layer.has_bias) return;
    add(layer.to + ".bias", source_.take(layer.from + ".bias", {matrix.rows()}));
  }

  /// PyTorch files hold the two names of tied tensors, of which one is enough.
  void untie() {
    const MaskedLmNames& names = *traits_.masked_lm;
    const std::array<std::pair<std::string, std::string>, 2> ties = {
        {{std::string(names.decoder) + ".weight", kWordEmbeddings},
         {std::string(names.bias[0]), std::string(names.bias[1])}}};
    for (const auto& [tied, original] : ties) {
      const bool both = source_.has(tied) && source_.has(original);
      if (both && source_.read(tied).is_same_as(source_.read(original))) source_.drop(tied);
    }
  }

  void masked_lm() {
    const MaskedLmNames& from = *traits_.masked_lm;
    const MaskedLmNames& to = *target_.masked_lm;
    const Index width = config_.hidden_size;
    const Index vocabulary = config_.vocab_size;
    const auto copy = [&](std::string_view source, std::string_view target, const char* part,
                          const Shape& shape) {
      add(std::string(target) + part, source_.take(std::string(source) + part, shape));
    };
    copy(from.dense, to.dense, ".weight", {width, width});
    copy(from.dense, to.dense, ".bias", {width});
    copy(from.norm, to.norm, ".weight", {width});
    copy(from.norm, to.norm, ".bias", {width});
    const std::string own_bias(from.bias[0]), other_bias(from.bias[1]);
    const Tensor bias = source_.take(source_.has(own_bias) ? own_bias : other_bias, {vocabulary});
    source_.drop(other_bias);
    add(std::string(to.bias[1]), bias);
    if (config_.tie_word_embeddings) {
      source_.drop(std::string(from.decoder) + ".weight");
      return;
    }
    copy(from.decoder, to.decoder, ".weight", {vocabulary, width});
    add(std::string(to.bias[0]), bias);
  }

  const EncoderConfig& config_;
  const EncoderTraits& traits_;
  const EncoderTraits& target_;
  const WeightPlan& plan_;
  const Weights& weights_;
  SourceTensors source_;
  std::string prefix_;
  std::vector<std::pair<std::string, Tensor>> result_;
};

}  // namespace

ConvertedWeights convert_weights(const EncoderConfig& config, const Weights& source,
                                 const WeightPlan& plan) {
  return Converter(config, source, plan).convert();
}

}  // namespace longformer::models
