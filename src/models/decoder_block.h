// A layer of a decoder: it attends to the tokens that are written, then to the source (spec.md
// B.4).
//
// R rows: the tokens of all texts of a pass, behind each other.
#pragma once

#include <memory>

#include "models/blocks.h"
#include "models/config.h"

namespace longformer::models {

/// a = LayerNorm(x + self(x)); b = LayerNorm(a + cross(a, source)); LayerNorm(b + down(up(b))).
class DecoderBlock final : public Block {
 public:
  DecoderBlock(const EncoderConfig& config, Index layer, const LayerSource& source);
  ~DecoderBlock() override;

  BlockOutput forward(const ops::Context& context, const Tensor& x,
                      const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

  /// Keys and values of the source into a fresh state with a stream for each of its documents:
  /// forward passes with that state read it without having it.
  void read_source(const ops::Context& context, const SourceStates& source,
                   LayerState& state) const;

 private:
  struct Parts;
  Tensor attend_self(const ops::Context& context, const Tensor& x, const LayerInput& in) const;
  Tensor attend_source(const ops::Context& context, const Tensor& x, const LayerInput& in) const;

  std::unique_ptr<const Parts> parts_;
};

}  // namespace longformer::models
