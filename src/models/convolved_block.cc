#include "models/convolved_block.h"

#include <string>
#include <utility>
#include <vector>

#include "ops/residual.h"
#include "ops/row_convolution.h"

namespace longformer::models {
namespace {

/// Rows around every row of its document, −1 for masked ones and for those beyond its ends.
ops::NeighboursOfRows neighbours_of(const kernels::AttentionRows& rows,
                                    std::span<const Index> starts, Index taps) {
  ops::NeighboursOfRows neighbours = {.rows = {}, .starts = {starts.begin(), starts.end()}};
  neighbours.rows.reserve(at(starts.back() * taps));
  for (std::size_t document = 0; document + 1 < starts.size(); ++document) {
    for (Index row = starts[document]; row < starts[document + 1]; ++row) {
      for (Index other = row - taps / 2; other <= row + taps / 2; ++other) {
        const bool is_inside = other >= starts[document] && other < starts[document + 1];
        const bool is_seen = is_inside && (rows.key_mask.empty() || rows.key_mask[at(other)] != 0);
        neighbours.rows.push_back(is_seen ? other : -1);
      }
    }
  }
  return neighbours;
}

class ConvolvedBlock final : public Block {
 public:
  ConvolvedBlock(const EncoderConfig& config, const LayerSource& source,
                 std::unique_ptr<Block> layer)
      : layer_(std::move(layer)), dropout_(config.hidden_dropout) {
    const ConvolutionRecipe& recipe = *config.recipe.convolution;
    const Index width = config.hidden_size, inputs = width / recipe.groups;
    const std::string name = "encoder.conv.conv";
    Tensor weight = source.weights.get(name + ".weight", {width, inputs, recipe.taps},
                                       source.init(name, {width, inputs * recipe.taps}));
    if (!source.weights.keeps_tensors()) weight = weight.to(source.dtype);
    convolution_ = {.weight = std::move(weight),
                    .bias = source.weights.get_fp32(name + ".bias", {width}, Init::zeros()),
                    .groups = recipe.groups,
                    .activation = recipe.activation};
    norm_ = layer_norm(source, "encoder.conv.LayerNorm", width);
  }

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const LayerInput& in) const override {
    const auto neighbours = std::make_shared<const ops::NeighboursOfRows>(
        neighbours_of(*in.shared.rows, in.shared.starts, convolution_.taps()));
    const Tensor y = layer_->forward(context, x, in);
    const Tensor convolved = ops::convolve_rows(context, x, convolution_, neighbours,
                                                context.dropout(dropout_, kConvolutionPlace));
    return ops::layer_norm(context, ops::add(context, convolved, y), norm_);
  }

  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override {
    return layer_->start(dtype, streams);
  }

 private:
  /// The last of those before the layers (see layer_place).
  static constexpr std::uint64_t kConvolutionPlace = 3;

  std::unique_ptr<Block> layer_;
  ops::RowConvolution convolution_;
  ops::LayerNorm norm_;
  double dropout_;
};

}  // namespace

std::unique_ptr<Block> convolved_block(const EncoderConfig& config, const LayerSource& source,
                                       std::unique_ptr<Block> layer) {
  return std::make_unique<ConvolvedBlock>(config, source, std::move(layer));
}

}  // namespace longformer::models
