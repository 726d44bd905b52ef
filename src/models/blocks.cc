#include "models/blocks.h"

#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "ops/embedding.h"
#include "ops/residual.h"

namespace longformer::models {
namespace {

class BlockOfParts : public Block {
 public:
  explicit BlockOfParts(BlockParts parts) : parts_(std::move(parts)) {}

  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override {
    return parts_.attention->start(dtype, streams);
  }

  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const final {
    const Tensor attended = attend(context, x, in);
    if (in.shared.computed.empty()) return behind_attention(context, attended, x, in);
    std::vector<Tensor> parts;
    Index done = 0;
    const auto leave_until = [&](Index end) {
      if (end > done) parts.push_back(x.slice_rows(done, end - done));
      done = end;
    };
    for (const auto& [begin, end] : in.shared.computed) {
      leave_until(begin);
      if (end == begin) continue;
      parts.push_back(behind_attention(context, attended.slice_rows(begin, end - begin),
                                       x.slice_rows(begin, end - begin), in));
      done = end;
    }
    leave_until(x.rows());
    return ops::joined_rows(context, parts);
  }

 protected:
  virtual Tensor attend(const ops::Context& context, const Tensor& x,
                        const LayerInput& in) const = 0;
  /// The rest of the layer, for some rows of x and of what attend() gave for them.
  virtual Tensor behind_attention(const ops::Context& context, const Tensor& attended,
                                  const Tensor& x, const LayerInput& in) const = 0;

  Dropout after_attention(const ops::Context& context) const {
    return context.dropout(parts_.attention_dropout, parts_.place + 1);
  }
  /// The places of the two are those of the layer's further ones.
  ops::FeedForwardDropout in_feed_forward(const ops::Context& context, std::uint64_t inner,
                                          std::uint64_t outer) const {
    return {.inner = context.dropout(parts_.activation_dropout, parts_.place + inner),
            .outer = context.dropout(parts_.feed_forward_dropout, parts_.place + outer)};
  }

  BlockParts parts_;
};

class PostNormBlock final : public BlockOfParts {
 public:
  using BlockOfParts::BlockOfParts;

 protected:
  Tensor attend(const ops::Context& context, const Tensor& x, const LayerInput& in) const override {
    return parts_.attention->forward(context, x, in);
  }
  Tensor behind_attention(const ops::Context& context, const Tensor& attended, const Tensor& x,
                          const LayerInput& in) const override {
    const Tensor hidden = ops::linear_add_norm(context, attended, parts_.attention_output, x,
                                               parts_.attention_norm, after_attention(context));
    in.tell_halfway();
    return ops::feed_forward_add_norm(context, hidden, parts_.feed_forward,
                                      parts_.feed_forward_norm, in_feed_forward(context, 3, 2));
  }
};

class PreNormBlock final : public BlockOfParts {
 public:
  using BlockOfParts::BlockOfParts;

 protected:
  Tensor attend(const ops::Context& context, const Tensor& x, const LayerInput& in) const override {
    return parts_.attention->forward(context, normed(context, x, in.shared.starts), in);
  }
  Tensor behind_attention(const ops::Context& context, const Tensor& attended, const Tensor& x,
                          const LayerInput& in) const override {
    const Tensor hidden =
        ops::linear_add(context, attended, parts_.attention_output, x, after_attention(context));
    in.tell_halfway();
    return ops::feed_forward_add(context,
                                 ops::layer_norm(context, hidden, parts_.feed_forward_norm),
                                 parts_.feed_forward, hidden, in_feed_forward(context, 2, 3));
  }

 private:
  /// The rows that attention reads: tokens, of which the last text's end where `starts` does, and
  /// global rows.
  Tensor normed(const ops::Context& context, const Tensor& x, std::span<const Index> starts) const {
    if (parts_.attention_norm.weight.empty()) return x;
    if (parts_.global_norm.weight.empty()) {
      return ops::layer_norm(context, x, parts_.attention_norm);
    }
    const Index n = starts.back();
    std::vector<Index> tokens(static_cast<std::size_t>(n));
    std::vector<Index> globals(static_cast<std::size_t>(x.rows() - n));
    std::iota(tokens.begin(), tokens.end(), 0);
    std::iota(globals.begin(), globals.end(), n);
    const std::array parts = {
        ops::layer_norm(context, ops::select_rows(context, x, tokens), parts_.attention_norm),
        ops::layer_norm(context, ops::select_rows(context, x, globals), parts_.global_norm)};
    return ops::joined_rows(context, parts);
  }
};

class NormedResultsBlock final : public BlockOfParts {
 public:
  using BlockOfParts::BlockOfParts;

 protected:
  Tensor attend(const ops::Context& context, const Tensor& x, const LayerInput& in) const override {
    return parts_.attention->forward(context, ops::layer_norm(context, x, parts_.attention_norm),
                                     in);
  }
  Tensor behind_attention(const ops::Context& context, const Tensor& attended, const Tensor& x,
                          const LayerInput& in) const override {
    const Tensor result =
        ops::linear_norm(context, attended, parts_.attention_output, parts_.attention_result_norm);
    const Tensor hidden = ops::add(context, result, x);
    in.tell_halfway();
    const Tensor nothing = Tensor::zeros(hidden.shape(), hidden.dtype());
    const Tensor made =
        ops::feed_forward_add(context, ops::layer_norm(context, hidden, parts_.feed_forward_norm),
                              parts_.feed_forward, nothing, in_feed_forward(context, 2, 3));
    return ops::add(context, ops::layer_norm(context, made, parts_.feed_forward_result_norm),
                    hidden);
  }
};

}  // namespace

std::unique_ptr<Block> post_norm_block(BlockParts parts) {
  return std::make_unique<PostNormBlock>(std::move(parts));
}

std::unique_ptr<Block> pre_norm_block(BlockParts parts) {
  if (!parts.attention_result_norm.weight.empty()) {
    return std::make_unique<NormedResultsBlock>(std::move(parts));
  }
  return std::make_unique<PreNormBlock>(std::move(parts));
}

}  // namespace longformer::models
