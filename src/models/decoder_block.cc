#include "models/decoder_block.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/key_slots.h"
#include "ops/linear.h"
#include "ops/residual.h"

namespace longformer::models {
namespace {

/// Keys and values of a document; nothing changes them, so that copies of a state and beams share
/// them.
struct SourceKeys {
  Tensor keys, values;
  /// 1 visible, 0 masked; empty when nothing is masked.
  std::vector<std::uint8_t> mask;
};

class DecoderLayerState final : public LayerState {
 public:
  explicit DecoderLayerState(ops::KeySlots slots) : written(std::move(slots)) {}

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<DecoderLayerState>(*this);
    same->written = written.copied();
    return same;
  }
  std::int64_t bytes() const override {
    std::int64_t sum = written.bytes();
    const SourceKeys* before = nullptr;
    for (const auto& source : sources) {
      // Beams of a document stand behind each other.
      if (source.get() != before) sum += static_cast<std::int64_t>(2 * source->keys.bytes());
      before = source.get();
    }
    return sum;
  }
  void reorder(std::span<const Index> from) override {
    written.reorder(from);
    std::vector<std::shared_ptr<const SourceKeys>> ordered;
    for (const Index stream : from) ordered.push_back(sources[at(stream)]);
    sources = std::move(ordered);
  }
  std::vector<Tensor> saved() const override {
    std::vector<Tensor> tensors;
    for (Index s = 0; s < written.streams(); ++s) {
      tensors.push_back(written.kept_keys(s));
      tensors.push_back(written.kept_values(s));
    }
    return tensors;
  }
  void restore(std::span<const Tensor> saved) override {
    require(static_cast<Index>(saved.size()) == 2 * written.streams(),
            "state: expected keys and values of {} streams, found {} tensors", written.streams(),
            saved.size());
    for (Index s = 0; s < written.streams(); ++s) {
      written.append_to(s, saved[at(2 * s)], saved[at(2 * s + 1)]);
    }
  }

  /// Keys of its own text that each query of a pass sees: rows starts[s] … of the pass are the last
  /// tokens of stream s.
  std::vector<kernels::KeySource> own_keys(std::span<const Index> starts) const;
  /// Keys of its document that each query sees: all beams of a document are one source, whose keys
  /// are read once.
  std::vector<kernels::KeySource> source_keys(std::span<const Index> starts) const;

  ops::KeySlots written;
  /// The document that a stream reads.
  std::vector<std::shared_ptr<const SourceKeys>> sources = {};
};

std::vector<kernels::KeySource> DecoderLayerState::own_keys(std::span<const Index> starts) const {
  std::vector<kernels::KeySource> all;
  for (Index s = 0; s < written.streams(); ++s) {
    for (Index row = starts[at(s)]; row < starts[at(s + 1)]; ++row) {
      // A token sees itself and those before it.
      all.push_back({.query_begin = row,
                     .query_count = 1,
                     .keys = &written.keys(),
                     .values = &written.values(),
                     .key_begin = written.begin(s),
                     .key_count = written.count(s) - (starts[at(s + 1)] - 1 - row)});
    }
  }
  return all;
}

std::vector<kernels::KeySource> DecoderLayerState::source_keys(
    std::span<const Index> starts) const {
  std::vector<kernels::KeySource> all;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const Index count = starts[s + 1] - starts[s];
    if (s > 0 && sources[s] == sources[s - 1]) {
      all.back().query_count += count;
      continue;
    }
    const SourceKeys& source = *sources[s];
    all.push_back({.query_begin = starts[s],
                   .query_count = count,
                   .keys = &source.keys,
                   .values = &source.values,
                   .key_count = source.keys.dimension(1),
                   .visible = source.mask.empty() ? nullptr : source.mask.data()});
  }
  return all;
}

/// Document i of the texts reads document i of the source.
std::shared_ptr<const kernels::AttentionRows> rows_of(const SourceStates& source,
                                                      std::span<const Index> starts) {
  kernels::AttentionRows rows;
  rows.key_mask = source.mask;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    rows.documents.push_back({.query_begin = starts[i],
                              .query_count = starts[i + 1] - starts[i],
                              .key_begin = source.starts[i],
                              .key_count = source.starts[i + 1] - source.starts[i]});
  }
  return kernels::shared(std::move(rows));
}

}  // namespace

struct DecoderBlock::Parts {
  kernels::AttentionPattern self, cross;
  ops::Linear query_key_value, self_output;
  ops::LayerNorm self_norm;
  ops::Linear query, key_value, cross_output;
  ops::LayerNorm cross_norm;
  ops::FeedForward feed_forward;
  ops::LayerNorm feed_forward_norm;
  double dropout = 0, attention_dropout = 0, activation_dropout = 0;
  std::uint64_t self_place = 0, cross_place = 0;
  bool norm_first = false;

  ops::FeedForwardDropout in_feed_forward(const ops::Context& context) const {
    return {.inner = context.dropout(activation_dropout, cross_place + 3),
            .outer = context.dropout(dropout, cross_place + 2)};
  }
};

DecoderBlock::DecoderBlock(const EncoderConfig& config, Index layer, const LayerSource& source) {
  const DecoderConfig& decoder = *config.decoder;
  const std::string name = fmt::format("decoder.layers.{}.", layer);
  const Index width = config.hidden_size;
  const Index inner = decoder.intermediate_size;
  // Slabs end in sums in fp32, which a norm reads.
  const Index slabs =
      decoder.norm_first ? 1 : slabs_between(source, name + "fc1", name + "fc2", inner);
  const bool has_bias = decoder.attention_bias;
  const auto projections = [&](const std::string& part, const std::vector<std::string>& letters) {
    std::vector<std::string> names;
    for (const auto& letter : letters)
      names.push_back(fmt::format("{}{}.{}_proj", name, part, letter));
    return stacked_linear(source, names, {width, width}, has_bias);
  };
  const auto output = [&](const char* part) {
    return linear(source, name + part, {width, width}, {.has_bias = has_bias});
  };
  const kernels::HeadPattern everything = {kernels::kUnlimitedReach, kernels::kUnlimitedReach, 1};
  kernels::AttentionPattern pattern = {.head_size = config.hidden_size / decoder.heads,
                                       .heads = {}};
  pattern.heads.assign(at(decoder.heads), everything);
  kernels::AttentionPattern causal = pattern;
  causal.causal = true;
  // Places of a layer's dropout come behind those of the encoder's layers; a layer has two.
  const Index place = config.layers + 2 * layer;
  parts_ = std::make_unique<const Parts>(Parts{
      .self = causal,
      .cross = pattern,
      .query_key_value = projections("self_attn", {"q", "k", "v"}),
      .self_output = output("self_attn.out_proj"),
      .self_norm = layer_norm(source, name + "self_attn_layer_norm", width),
      .query = projections("encoder_attn", {"q"}),
      .key_value = projections("encoder_attn", {"k", "v"}),
      .cross_output = output("encoder_attn.out_proj"),
      .cross_norm = layer_norm(source, name + "encoder_attn_layer_norm", width),
      .feed_forward = {.up = linear(source, name + "fc1", {inner, width},
                                    {.activation = config.activation, .slabs = {.out = slabs}}),
                       .down =
                           linear(source, name + "fc2", {width, inner}, {.slabs = {.in = slabs}})},
      .feed_forward_norm = layer_norm(source, name + "final_layer_norm", width),
      .dropout = config.hidden_dropout,
      .attention_dropout = config.attention_dropout,
      .activation_dropout = config.activation_dropout,
      .self_place = layer_place(place),
      .cross_place = layer_place(place + 1),
      .norm_first = decoder.norm_first});
}

DecoderBlock::~DecoderBlock() = default;

std::unique_ptr<LayerState> DecoderBlock::start(DType dtype, Index streams) const {
  require(streams == 0,
          "decoder: expected a state without streams, to which documents are added, "
          "found {}",
          streams);
  const auto heads = static_cast<Index>(parts_->self.heads.size());
  return std::make_unique<DecoderLayerState>(
      ops::KeySlots(heads, parts_->self.head_size, streams, dtype));
}

void DecoderBlock::read_source(const ops::Context& context, const Tensor& hidden,
                               std::span<const std::uint8_t> mask, LayerState& state) const {
  const auto heads = static_cast<Index>(parts_->cross.heads.size());
  const auto projected =
      ops::project_heads(context, hidden, parts_->key_value, heads, parts_->cross.head_size);
  auto& own = static_cast<DecoderLayerState&>(state);
  own.written.add(1);
  own.sources.push_back(std::make_shared<const SourceKeys>(
      SourceKeys{projected[0], projected[1], {mask.begin(), mask.end()}}));
}

Tensor DecoderBlock::attend_self(const ops::Context& context, const Tensor& x,
                                 const LayerInput& in) const {
  const auto heads = static_cast<Index>(parts_->self.heads.size());
  const auto projected =
      ops::project_heads(context, x, parts_->query_key_value, heads, parts_->self.head_size);
  ops::AttentionSpec spec = {parts_->self, in.shared.rows};
  spec.dropout = context.dropout(parts_->attention_dropout, parts_->self_place);
  if (in.state == nullptr) {
    return ops::attention(context, spec, projected[0], projected[1], projected[2]);
  }
  auto& state = static_cast<DecoderLayerState&>(*in.state);
  state.written.append(projected[1], projected[2], in.shared.starts);
  return ops::attention_to_kept(context, projected[0], state.own_keys(in.shared.starts));
}

Tensor DecoderBlock::attend_source(const ops::Context& context, const Tensor& x,
                                   const LayerInput& in) const {
  const auto heads = static_cast<Index>(parts_->cross.heads.size());
  const Index head_size = parts_->cross.head_size;
  const Tensor query = ops::project_heads(context, x, parts_->query, heads, head_size)[0];
  if (in.state != nullptr) {
    const auto& state = static_cast<const DecoderLayerState&>(*in.state);
    return ops::attention_to_kept(context, query, state.source_keys(in.shared.starts));
  }
  const auto projected =
      ops::project_heads(context, *in.source, parts_->key_value, heads, head_size);
  ops::AttentionSpec spec = {parts_->cross, rows_of(*in.shared.source, in.shared.starts)};
  spec.dropout = context.dropout(parts_->attention_dropout, parts_->cross_place);
  if (in.observer != nullptr) {
    ops::attention_probabilities(context, spec, {.query = query, .key = projected[0]},
                                 in.observer->heads, in.observer->observe);
  }
  return ops::attention(context, spec, query, projected[0], projected[1]);
}

Tensor DecoderBlock::forward(const ops::Context& context, const Tensor& x,
                             const LayerInput& in) const {
  const Parts& parts = *parts_;
  if (parts.norm_first) return forward_norm_first(context, x, in);
  const auto dropout = [&](std::uint64_t place) { return context.dropout(parts.dropout, place); };
  const Tensor self = ops::linear_add_norm(context, attend_self(context, x, in), parts.self_output,
                                           x, parts.self_norm, dropout(parts.self_place + 1));
  const Tensor cross =
      ops::linear_add_norm(context, attend_source(context, self, in), parts.cross_output, self,
                           parts.cross_norm, dropout(parts.cross_place + 1));
  return ops::feed_forward_add_norm(context, cross, parts.feed_forward, parts.feed_forward_norm,
                                    parts.in_feed_forward(context));
}

Tensor DecoderBlock::forward_norm_first(const ops::Context& context, const Tensor& x,
                                        const LayerInput& in) const {
  const Parts& parts = *parts_;
  const auto dropout = [&](std::uint64_t place) { return context.dropout(parts.dropout, place); };
  const Tensor read = ops::layer_norm(context, x, parts.self_norm);
  const Tensor self = ops::linear_add(context, attend_self(context, read, in), parts.self_output, x,
                                      dropout(parts.self_place + 1));
  const Tensor asked = ops::layer_norm(context, self, parts.cross_norm);
  const Tensor cross = ops::linear_add(context, attend_source(context, asked, in),
                                       parts.cross_output, self, dropout(parts.cross_place + 1));
  return ops::feed_forward_add(context, ops::layer_norm(context, cross, parts.feed_forward_norm),
                               parts.feed_forward, cross, parts.in_feed_forward(context));
}

}  // namespace longformer::models
