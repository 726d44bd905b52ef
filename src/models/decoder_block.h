// A layer of a decoder: it attends to the tokens that are written, then to the source
// (docs/spec/led-and-generation.md#b4, #b15).
//
// R rows: the tokens of all texts of a pass, behind each other.
#pragma once

#include <memory>

#include "models/blocks.h"
#include "models/config.h"

namespace longformer::models {

/// a = LayerNorm(x + self(x)); b = LayerNorm(a + cross(a, source)); LayerNorm(b + down(up(b))).
/// Norms come first where DecoderConfig::norm_first says so: a = x + self(LayerNorm(x)); b = a +
/// cross(LayerNorm(a), source); b + down(up(LayerNorm(b))).
class DecoderBlock final : public Block {
 public:
  DecoderBlock(const EncoderConfig& config, Index layer, const LayerSource& source);
  ~DecoderBlock() override;

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

  /// Adds a stream to a state that reads a document of these hidden states [n, D]: forward passes
  /// with that state do not need them. `mask` is 1 where a token is visible; empty for all.
  void read_source(const ops::Context& context, const Tensor& hidden,
                   std::span<const std::uint8_t> mask, LayerState& state) const;

 private:
  struct Parts;
  Tensor forward_norm_first(const ops::Context& context, const Tensor& x,
                            const LayerInput& in) const;
  Tensor attend_self(const ops::Context& context, const Tensor& x, const LayerInput& in) const;
  Tensor attend_source(const ops::Context& context, const Tensor& x, const LayerInput& in) const;

  std::unique_ptr<const Parts> parts_;
};

}  // namespace longformer::models
