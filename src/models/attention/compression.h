// How old rows of a memory become fewer (docs/spec/language-models.md#g2-compression; Compressive
// Transformer, arXiv 1911.05507, section 3.1).
//
// B streams; e old rows of each; D hidden size; c compression rate.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "models/language_model_config.h"
#include "models/layers.h"

namespace longformer::models {

class Compressor {
 public:
  Compressor(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  /// Numbers of the old rows that were looked at most, of all streams.
  using MostUsed = std::function<std::vector<Index>()>;

  /// From old [B·e, D], which are constant, to as many rows of each stream as compressed_count
  /// says.
  Tensor fewer(const ops::Context& context, const Tensor& old, Index streams,
               const MostUsed& most_used) const;
  /// How far the old rows are from what a transposed convolution makes of the fewer ones: the mean
  /// square of the difference.
  Tensor autoencoding_loss(const ops::Context& context, const Tensor& old,
                           const Tensor& fewer) const;

 private:
  Tensor dilated(const ops::Context& context, const Tensor& old, Index streams) const;

  Compression compression_;
  Index rate_;
  std::vector<Index> dilation_rates_;
  /// Each reads a row and the one that is so many behind it.
  std::vector<ops::Linear> dilations_;
  std::optional<ops::Linear> convolution_;
  /// [D, D·c]; empty unless the loss is autoencoding.
  Tensor decoder_;
};

}  // namespace longformer::models
