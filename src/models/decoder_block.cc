#include "models/decoder_block.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/key_slots.h"
#include "ops/linear.h"

namespace longformer::models {
namespace {

/// Keys and values of the source, of all documents behind each other; nothing changes them, so that
/// copies of a state and beams share them.
struct SourceKeys {
  Tensor keys, values;
  std::vector<Index> starts;
  std::vector<std::uint8_t> mask;
};

class DecoderLayerState final : public LayerState {
 public:
  DecoderLayerState(ops::KeySlots slots, Index streams) : written(std::move(slots)) {
    for (Index s = 0; s < streams; ++s) documents.push_back(s);
  }

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<DecoderLayerState>(*this);
    same->written = written.copied();
    return same;
  }
  std::int64_t bytes() const override {
    return written.bytes() +
           (source ? static_cast<std::int64_t>(source->keys.bytes() + source->values.bytes()) : 0);
  }
  void reorder(std::span<const Index> sources) override {
    written.reorder(sources);
    std::vector<Index> ordered;
    for (const Index stream : sources) ordered.push_back(documents[at(stream)]);
    documents = std::move(ordered);
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

  /// Rows of queries that follow each other, and the tokens that each stream has written.
  std::shared_ptr<const kernels::AttentionRows> self_rows(std::span<const Index> starts) const;
  /// The same queries, and the document that each stream reads.
  std::shared_ptr<const kernels::AttentionRows> source_rows(std::span<const Index> starts) const;

  ops::KeySlots written;
  std::shared_ptr<const SourceKeys> source = nullptr;
  /// The document that a stream reads.
  std::vector<Index> documents = {};
};

std::shared_ptr<const kernels::AttentionRows> DecoderLayerState::self_rows(
    std::span<const Index> starts) const {
  kernels::AttentionRows rows;
  for (Index s = 0; s < written.streams(); ++s) {
    const Index count = starts[at(s + 1)] - starts[at(s)];
    rows.documents.push_back({.query_begin = starts[at(s)],
                              .query_count = count,
                              .key_begin = written.begin(s),
                              .key_count = written.count(s),
                              .query_offset = written.count(s) - count});
  }
  // The empty document takes the rows of the slots that hold nothing.
  rows.documents.push_back(
      {.query_begin = starts.back(), .key_begin = written.keys().dimension(1)});
  return kernels::shared(std::move(rows));
}

std::shared_ptr<const kernels::AttentionRows> DecoderLayerState::source_rows(
    std::span<const Index> starts) const {
  kernels::AttentionRows rows;
  rows.key_mask = source->mask;
  for (std::size_t s = 0; s < documents.size(); ++s) {
    const Index count = starts[s + 1] - starts[s];
    // All beams of a document are one document: its keys are read once.
    if (s > 0 && documents[s] == documents[s - 1]) {
      rows.documents.back().query_count += count;
      continue;
    }
    const Index begin = source->starts[at(documents[s])];
    rows.documents.push_back({.query_begin = starts[s],
                              .query_count = count,
                              .key_begin = begin,
                              .key_count = source->starts[at(documents[s] + 1)] - begin});
  }
  rows.documents.push_back({.query_begin = starts.back(), .key_begin = source->keys.dimension(1)});
  return kernels::shared(std::move(rows));
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
};

DecoderBlock::DecoderBlock(const EncoderConfig& config, Index layer, const LayerSource& source) {
  const DecoderConfig& decoder = *config.decoder;
  const std::string name = fmt::format("decoder.layers.{}.", layer);
  const Index width = config.hidden_size;
  const Index inner = decoder.intermediate_size;
  const Index slabs = kernels::feed_forward_slabs(inner, source.dtype);
  const auto projections = [&](const std::string& part, const std::vector<std::string>& letters) {
    std::vector<std::string> names;
    for (const auto& letter : letters) names.push_back(name + part + "." + letter + "_proj");
    return stacked_linear(source, names, {width, width});
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
      .self_output = linear(source, name + "self_attn.out_proj", {width, width}),
      .self_norm = layer_norm(source, name + "self_attn_layer_norm", width),
      .query = projections("encoder_attn", {"q"}),
      .key_value = projections("encoder_attn", {"k", "v"}),
      .cross_output = linear(source, name + "encoder_attn.out_proj", {width, width}),
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
      .cross_place = layer_place(place + 1)});
}

DecoderBlock::~DecoderBlock() = default;

std::unique_ptr<LayerState> DecoderBlock::start(DType dtype, Index streams) const {
  const auto heads = static_cast<Index>(parts_->self.heads.size());
  return std::make_unique<DecoderLayerState>(
      ops::KeySlots(heads, parts_->self.head_size, streams, dtype), streams);
}

void DecoderBlock::read_source(const ops::Context& context, const SourceStates& source,
                               LayerState& state) const {
  const auto heads = static_cast<Index>(parts_->cross.heads.size());
  const auto projected =
      ops::project_heads(context, source.hidden, parts_->key_value, heads, parts_->cross.head_size);
  static_cast<DecoderLayerState&>(state).source = std::make_shared<const SourceKeys>(
      SourceKeys{projected[0], projected[1], source.starts, source.mask});
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
  spec.rows = state.self_rows(in.shared.starts);
  return ops::attention(context, spec, projected[0], state.written.keys(), state.written.values());
}

Tensor DecoderBlock::attend_source(const ops::Context& context, const Tensor& x,
                                   const LayerInput& in) const {
  const auto heads = static_cast<Index>(parts_->cross.heads.size());
  const Index head_size = parts_->cross.head_size;
  const Tensor query = ops::project_heads(context, x, parts_->query, heads, head_size)[0];
  ops::AttentionSpec spec = {parts_->cross, nullptr};
  spec.dropout = context.dropout(parts_->attention_dropout, parts_->cross_place);
  const auto attend = [&](const Tensor& key, const Tensor& value) {
    if (in.observer != nullptr) {
      ops::attention_probabilities(context, spec, {.query = query, .key = key}, in.observer->heads,
                                   in.observer->observe);
    }
    return ops::attention(context, spec, query, key, value);
  };
  if (in.state != nullptr) {
    const auto& state = static_cast<const DecoderLayerState&>(*in.state);
    spec.rows = state.source_rows(in.shared.starts);
    return attend(state.source->keys, state.source->values);
  }
  const auto projected =
      ops::project_heads(context, *in.source, parts_->key_value, heads, head_size);
  spec.rows = rows_of(*in.shared.source, in.shared.starts);
  return attend(projected[0], projected[1]);
}

BlockOutput DecoderBlock::forward(const ops::Context& context, const Tensor& x,
                                  const LayerInput& in) const {
  const Parts& parts = *parts_;
  const auto dropout = [&](std::uint64_t place) { return context.dropout(parts.dropout, place); };
  const Tensor self = ops::linear_add_norm(context, attend_self(context, x, in), parts.self_output,
                                           x, parts.self_norm, dropout(parts.self_place + 1));
  const Tensor cross =
      ops::linear_add_norm(context, attend_source(context, self, in), parts.cross_output, self,
                           parts.cross_norm, dropout(parts.cross_place + 1));
  return {ops::feed_forward_add_norm(context, cross, parts.feed_forward, parts.feed_forward_norm,
                                     dropout(parts.cross_place + 2))};
}

}  // namespace longformer::models
