#include "models/attention/compression.h"

#include <cmath>

#include "core/error.h"
#include "ops/embedding.h"
#include "ops/expansion.h"
#include "ops/loss.h"
#include "ops/row_windows.h"

namespace longformer::models {
namespace {

using kernels::RowWindow;

/// Every row of a stream beside the one that is so many behind it, one after the other: as many
/// pairs as there are.
std::vector<Index> pairs(Index streams, Index rows, Index behind) {
  std::vector<Index> order;
  for (Index s = 0; s < streams; ++s) {
    for (Index row = 0; row + behind < rows; ++row) {
      order.push_back(s * rows + row);
      order.push_back(s * rows + row + behind);
    }
  }
  return order;
}

}  // namespace

Compressor::Compressor(const LanguageModelConfig& config, Index layer, const LayerSource& source)
    : compression_(config.compression),
      rate_(config.compression_rate),
      dilation_rates_(config.dilation_rates) {
  const LinearShape shape = {config.hidden_size, config.hidden_size};
  const std::string name = name_in(layer, "compression");
  for (std::size_t t = 0; t < dilation_rates_.size(); ++t) {
    dilations_.push_back(convolution(source, fmt::format("{}.dilated.{}", name, t), shape, 2,
                                     ops::Activation::relu));
  }
  if (config.learns_compression()) {
    convolution_ = convolution(source, name, shape, config.compression_rate);
  }
  if (config.compression_loss == CompressionLoss::autoencoding) {
    const Tensor weight =
        source.weights.get_fp32(name + ".decoder.weight", {shape.in, shape.out, rate_},
                                Init::normal(1 / std::sqrt(static_cast<double>(shape.in * rate_))));
    decoder_ = weight.reshaped({shape.in, shape.out * rate_});
    decoder_.set_gradient(weight.gradient());
  }
}

Tensor Compressor::dilated(const ops::Context& context, const Tensor& old, Index streams) const {
  Tensor rows = old;
  for (std::size_t t = 0; t < dilations_.size(); ++t) {
    const Index count = rows.rows() / streams;
    rows = ops::select_rows(context, rows, pairs(streams, count, dilation_rates_[t]));
    rows = ops::linear(context, ops::row_windows(context, rows, 2, RowWindow::features),
                       dilations_[t], context.dtype);
  }
  // Rows that no stride reaches are left out.
  const Index count = rows.rows() / streams, used = count / rate_ * rate_;
  std::vector<Index> order;
  for (Index s = 0; s < streams; ++s) {
    for (Index row = 0; row < used; ++row) order.push_back(s * count + row);
  }
  return ops::select_rows(context, rows, order);
}

Tensor Compressor::fewer(const ops::Context& context, const Tensor& old, Index streams,
                         const MostUsed& most_used) const {
  switch (compression_) {
    case Compression::mean:
      return ops::row_windows(context, old, rate_, RowWindow::mean);
    case Compression::largest:
      return ops::row_windows(context, old, rate_, RowWindow::largest);
    case Compression::most_used:
      return ops::select_rows(context, old, most_used());
    case Compression::convolution:
    case Compression::dilated:
      break;
  }
  const Tensor rows = compression_ == Compression::dilated ? dilated(context, old, streams) : old;
  return ops::linear(context, ops::row_windows(context, rows, rate_, RowWindow::features),
                     *convolution_, context.dtype);
}

Tensor Compressor::autoencoding_loss(const ops::Context& context, const Tensor& old,
                                     const Tensor& fewer) const {
  const Tensor again = ops::expand(context, fewer, decoder_);
  const Tensor target = ops::row_windows(context, old.to(DType::f32), rate_, RowWindow::features);
  return ops::mean_square_difference(context, again, target);
}

}  // namespace longformer::models
