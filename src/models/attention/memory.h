// Attention to the segment and to what is kept of those before it: their rows (Transformer-XL,
// arXiv 1901.02860), and rows that stand for several older ones (Compressive Transformer, arXiv
// 1911.05507; docs/spec/language-models.md#g).
//
// B streams of text, which have all read as much; s rows of each; D hidden size.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/attention/compression.h"
#include "models/attention/query_key_value.h"
#include "ops/attention.h"

namespace longformer::models {

class Memory;

/// The loss that teaches the compression of a layer (PassOptions::losses).
inline constexpr std::string_view kCompressionLoss = "compression";

class MemoryAttention final : public Attention {
 public:
  MemoryAttention(const LanguageModelConfig& config, Index layer, const LayerSource& source);

  /// The state is never null, and the rows do not go beyond the end of a segment. With a tape they
  /// are a whole one.
  Tensor forward(const ops::Context& context, const Tensor& x, const LayerInput& in) const override;
  std::unique_ptr<LayerState> start(DType dtype, Index streams) const override;

 private:
  /// W_r and v of one kind of rows.
  struct Distances {
    Tensor bias;
    ops::Linear relative_key;
  };
  struct Keys;
  struct Segment;

  Distances distances_of(const LayerSource& source, const std::string& kind) const;
  Tensor relative_keys(const ops::Context& context, const Distances& distances, Index count,
                       const LayerInput& in, const Memory& memory) const;
  std::optional<ops::RelativePositions> relative_positions(const ops::Context& context,
                                                           const Distances& of, Tensor& kept,
                                                           const LayerInput& in,
                                                           const Memory& memory,
                                                           Index queries) const;
  std::vector<Tensor> project(const ops::Context& context, const Tensor& rows, Index first,
                              const LayerInput& in, const Memory& memory) const;
  Keys running_keys(const ops::Context& context, const std::vector<Tensor>& projected,
                    const LayerInput& in, Memory& memory) const;
  Keys kept_keys(const ops::Context& context, const Tensor& rows, Index offset,
                 std::vector<Tensor>& kept, const LayerInput& in, const Memory& memory) const;
  std::vector<ops::KeyGroup> groups_of(const ops::Context& context, const Keys& running,
                                       Index queries, const LayerInput& in, Memory& memory) const;
  ops::KeyGroup group_of(const ops::Context& context, const Keys& keys, Index queries,
                         const std::optional<ops::RelativePositions>& positions,
                         const Memory& memory) const;
  void add_shares(const ops::Context& context, const Tensor& query,
                  std::span<const ops::KeyGroup> groups, const Memory& memory,
                  AttentionShares& shares) const;
  void observe_groups(const ops::Context& context, const Segment& segment, Index compressed,
                      const HeadObserver& observer) const;
  void end_segment(const ops::Context& context, const LayerInput& in, const Segment& segment,
                   Memory& memory) const;
  void compress(const ops::Context& context, const Tensor& old, const LayerInput& in,
                const Segment& segment, Memory& memory) const;
  std::vector<Index> most_used(const ops::Context& context, const LayerInput& in,
                               const Segment& segment, Index old, Memory& memory) const;
  Tensor reconstruction_loss(const ops::Context& context, const Tensor& old, const Tensor& fewer,
                             const Memory& memory) const;

  const LanguageModelConfig config_;
  Index layer_;
  QueryKeyValue query_key_value_;
  /// Absent where positions are not relative.
  Tensor content_bias_;
  std::optional<Distances> distances_, compressed_distances_;
  std::optional<Compressor> compressor_;
};

/// Rows first … first + count − 1 of every stream, stream after stream, from parts that hold the
/// rows of a stream one after the other.
Tensor rows_of_streams(const ops::Context& context, std::span<const Tensor> parts, Index streams,
                       Index first, Index count);

/// Other lengths for a layer that has read nothing, and those that it has.
void set_lengths(LayerState& state, const MemoryLengths& lengths);
const MemoryLengths& lengths_of(const LayerState& state);

/// For the next training pass everything that is kept is constant.
void end_pass(LayerState& state);

}  // namespace longformer::models
