// Self-attention over a few slots that stand for all tokens of a document (Linformer, arXiv
// 2006.04768; docs/spec/low-rank-and-kernels.md#e).
#include <algorithm>
#include <array>
#include <utility>

#include "models/attention/attention.h"
#include "ops/attention.h"
#include "ops/slots.h"

namespace longformer::models {
namespace {

/// Slots of all documents of a batch, and which of them stand for something.
struct Slots {
  std::vector<Index> starts;
  std::vector<std::uint8_t> mask = {};
};

/// Documents that see their own slots, and those alone.
std::shared_ptr<const kernels::AttentionRows> rows_over(std::span<const Index> starts,
                                                        const Slots& slots) {
  kernels::AttentionRows rows;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    rows.documents.push_back({.query_begin = starts[i],
                              .query_count = starts[i + 1] - starts[i],
                              .key_begin = slots.starts[i],
                              .key_count = slots.starts[i + 1] - slots.starts[i]});
  }
  rows.key_mask = slots.mask;
  return kernels::shared(std::move(rows));
}

class LinformerAttention final : public Attention {
 public:
  LinformerAttention(const EncoderConfig& config, Index layer, const LayerSource& source)
      : linformer_(*config.linformer),
        pattern_{.head_size = config.head_size(), .heads = config.pattern(layer)},
        k_(linformer_.lengths[at(layer)]),
        window_(linformer_.window(layer)),
        dropout_(config.attention_dropout),
        place_(layer_place(layer)) {
    const auto projection = [&](const std::string& part, bool has_bias) {
      return linear(source, self_attention_name(layer) + part,
                    {config.hidden_size, config.hidden_size}, {.has_bias = has_bias});
    };
    const bool by_head = linformer_.sharing == ProjectionSharing::none;
    query_.emplace(projection("query", true));
    for (const std::string part : {"key", "value"}) {
      Side side = {.projection = projection(part, !by_head),
                   .few = projection_weights(linformer_, source.weights, layer, config.heads,
                                             config.hidden_size, part)};
      if (by_head) {
        side.bias = source.weights.get_fp32(self_attention_name(layer) + part + ".bias",
                                            {config.hidden_size}, Init::zeros());
      }
      if (linformer_.projection == Projection::full_convolution) {
        side.convolution.emplace(
            std::span(&side.few, 1), std::span<const Tensor>(),
            ops::LinearOptions{.dtype = source.dtype, .trainable = source.weights.keeps_tensors()});
      }
      sides_.push_back(std::move(side));
    }
  }

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    const std::span<const Index> starts = in.shared.starts;
    const std::span<const std::uint8_t> mask = in.shared.rows->key_mask;
    const Slots slots = slots_of(starts, mask);
    ops::AttentionSpec spec = {pattern_, rows_over(starts, slots)};
    spec.dropout = context.dropout(dropout_, place_);
    const Tensor query = heads_of(context, x, *query_);
    const Tensor seen = linformer_.is_linear() ? ops::without_masked(context, x, mask) : x;
    const Tensor rows = few_rows(context, seen, starts, mask, sides_[0]);
    const Tensor value_rows =
        linformer_.has_two_sides() ? few_rows(context, seen, starts, mask, sides_[1]) : rows;
    const Tensor key = keys_of(context, rows, starts, sides_[0]);
    const Tensor value = keys_of(context, value_rows, starts, sides_[1]);
    return ops::attention(context, spec, query, key, value);
  }

 private:
  /// Projections that make keys or values.
  struct Side {
    ops::Linear projection;
    /// E or F.
    Tensor few;
    /// Shift of each head, added before the bias, if every head has its own.
    Tensor bias = {};
    std::optional<ops::Linear> convolution = std::nullopt;
  };

  Slots slots_of(std::span<const Index> starts, std::span<const std::uint8_t> mask) const {
    if (!linformer_.is_linear()) {
      kernels::SlotWindows windows(starts, window_, mask);
      return {windows.slot_starts, windows.slot_mask()};
    }
    Slots slots = {{0}};
    for (std::size_t i = 1; i < starts.size(); ++i) {
      slots.starts.push_back(static_cast<Index>(i) * k_);
    }
    return slots;
  }

  Tensor heads_of(const ops::Context& context, const Tensor& x, const ops::Linear& dense) const {
    return ops::project_heads(context, x, dense, std::ssize(pattern_.heads), pattern_.head_size)[0];
  }

  /// E·X of every document; the rows themselves where every head has an E.
  Tensor few_rows(const ops::Context& context, const Tensor& x, std::span<const Index> starts,
                  std::span<const std::uint8_t> mask, const Side& side) const {
    using kernels::SlotKind;
    if (linformer_.sharing == ProjectionSharing::none) return x;
    if (linformer_.is_linear()) return ops::project_rows(context, x, starts, side.few, k_);
    const kernels::SlotWindows windows(starts, window_, mask);
    switch (linformer_.projection) {
      case Projection::mean:
        return ops::window_slots(context, x, windows, SlotKind::mean);
      case Projection::largest:
        return ops::window_slots(context, x, windows, SlotKind::largest);
      case Projection::full_convolution:
        return ops::linear(context, ops::window_slots(context, x, windows, SlotKind::gathered),
                           *side.convolution, context.dtype);
      default:
        return ops::window_slots(context, x, windows, SlotKind::depthwise, side.few);
    }
  }

  /// Keys or values [H, slots, d]: the bias comes behind E (docs/spec/low-rank-and-kernels.md#e1).
  Tensor keys_of(const ops::Context& context, const Tensor& rows, std::span<const Index> starts,
                 const Side& side) const {
    const Tensor projected = heads_of(context, rows, side.projection);
    if (linformer_.sharing != ProjectionSharing::none) return projected;
    return ops::add_head_bias(context, ops::project_rows(context, projected, starts, side.few, k_),
                              side.bias);
  }

  LinformerConfig linformer_;
  kernels::AttentionPattern pattern_;
  Index k_, window_;
  double dropout_;
  std::uint64_t place_;
  std::optional<ops::Linear> query_;
  /// Keys, values.
  std::vector<Side> sides_;
};

}  // namespace

std::unique_ptr<Attention> linformer_attention(const EncoderConfig& config, Index layer,
                                               const LayerSource& source) {
  return std::make_unique<LinformerAttention>(config, layer, source);
}

}  // namespace longformer::models
