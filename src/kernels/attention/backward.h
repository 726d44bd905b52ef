// The backward pass of attention: what the files of attention_backward() share.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/distance_bias.h"
#include "kernels/attention/distance_keys.h"
#include "kernels/attention/fused_tile.h"
#include "kernels/attention/key_kinds.h"
#include "kernels/attention/relative.h"
#include "kernels/attention/tasks.h"

namespace longformer::kernels {

/// The backward pass goes by tiles in registers, or by products of whole tiles.
enum class BackwardForm { tiles, products };

/// The faster form that this CPU has for the spec.
BackwardForm backward_form(const AttentionSpec& spec, DType dtype);

/// attention_backward() in a form that can run the spec.
void attention_backward(const AttentionSpec& spec, const AttentionBackwardArguments& in,
                        BackwardForm form);

/// Data shared by all parts of a call.
struct BackwardPlan {
  const AttentionSpec& spec;
  const AttentionBackwardArguments& in;
  AttentionTasks rows;
  TileKernels kernels;
  /// Inputs are bf16 and the kernels fp32.
  bool widen;
  Index dims;
  Index queries_per_task;
  /// Keys that are packed at a time.
  Index chunk_rows;
  /// Relative distances; 0 without.
  Index distances;
  /// Each head is split into so many ranges of queries.
  Index parts;

  BackwardPlan(const AttentionSpec& spec, const AttentionBackwardArguments& in);

  /// Logarithm of the denominator of a query for the scores of these keys, without what is added to
  /// all of them.
  float logsumexp(Index head, Index row) const {
    return in.logsumexp.data<float>()[head * in.logsumexp.dimension(1) + row] - spec.log_weight;
  }
  /// Whether a query sees something and its output has a gradient.
  bool sends_back(Index head, Index row) const;
};

/// Gradients that a range of queries of one head returns to everything but the queries; rows of d
/// numbers.
struct HeadSums {
  /// Products of whole tiles add zeros to so many rows behind the last key.
  static constexpr Index kRowsBehind = 64;

  /// Keys that have rows in `key` and `value`; global keys have rows of their own.
  Range keys;
  Tensor key, value;
  /// Factor of the sums of keys in the end.
  float key_factor = 1;
  std::vector<float> global_key, global_value;
  std::vector<float> content_bias, position_bias;
  /// [m + RelativeTerm::kRowsBeyond][dims]
  Tensor relative_keys;
  /// [2R + 1]
  std::vector<double> distance_bias;
  /// [DistanceKeyTerm::padded_rows][dims]
  Tensor distance_keys, distance_queries;

  /// Starts again with zeros.
  void start(const BackwardPlan& plan, Range keys);
};

/// Working memory of one thread, and the steps of a range of queries.
class BackwardWorker {
 public:
  explicit BackwardWorker(const BackwardPlan& plan);

  /// Writes the gradients of the queries, rows queries.begin … queries.end − 1 of a head, and adds
  /// the others to `sums`.
  void run(Index head, Range queries, HeadSums& sums);

 private:
  /// A tile of queries, or of something that comes with each, as the kernels read it.
  struct Side {
    float* lanes = nullptr;  ///< [units][lanes]
    float* rows = nullptr;   ///< [lanes / pack][dims]
  };

  void allocate();
  void run(const Task& task, HeadSums& sums);
  void select_lanes(const Task& task);
  bool sees_chunk(Index tile, Range places, Index globals) const;
  bool lies_in_rows(const Task& task, const KeySequence& keys, Range places) const;
  void take_chunk(const Task& task, const KeySequence& keys, Range places, HeadSums& sums);
  void pack_keys(const KeySequence& keys, Range places);
  void end_rows_at(Index packed);
  void pair_keys();
  void load_tile(Index tile);
  void prefetch(const Tensor& tensor, Index offset) const;
  void prefetch_queries();
  void load_row(const Side& side, const Tensor& tensor, Index offset, const float* bias,
                Index lane);
  void finish_side(const Side& side);
  float load_statistics(Index row, Index lane);
  void send_back(Index tile, Range Lane::*range, Index end, HeadSums& sums);
  void send_back(Index begin, Index end);
  void send_biases_back(Range keys, const float* weights);
  void send_kinds_back(Range keys);
  void add_key_sums(const KeySequence& keys, HeadSums& sums) const;
  void write_query_gradients(HeadSums& sums);
  void write_zeros(Index row);
  /// From a product of query and key to a score.
  float score_scale() const;

  Index head_offset(const Tensor& tensor, Index row) const {
    return (head_ * tensor.dimension(1) + row) * plan_.spec.head_size;
  }
  Index output_offset(Index row) const {
    return (row * static_cast<Index>(plan_.spec.heads.size()) + head_) * plan_.spec.head_size;
  }
  Index tile_count() const {
    return divide_up(static_cast<Index>(lanes_.size()), plan_.kernels.lanes);
  }

  const BackwardPlan& plan_;
  std::shared_ptr<void> memory_;
  GradientWork work_;
  Side query_, position_query_, gradient_;
  float* stage_ = nullptr;
  float* exponents_ = nullptr;
  float* means_ = nullptr;
  float* keys_ = nullptr;
  float* values_ = nullptr;
  float* key_pairs_ = nullptr;
  float* key_sums_ = nullptr;
  float* value_sums_ = nullptr;
  float* added_ = nullptr;
  std::uint32_t* starts_ = nullptr;
  std::uint32_t* twists_ = nullptr;
  std::uint32_t* columns_ = nullptr;
  /// [tile][dims][lanes]
  float* query_sums_ = nullptr;
  float* position_sums_ = nullptr;
  std::optional<RelativeTerm> relative_;
  std::optional<KindTerm> kinds_;
  std::optional<DistanceBias> bias_;
  std::optional<DistanceKeyTerm> distance_keys_;

  std::vector<Task> tasks_;
  std::vector<Lane> lanes_;
  std::vector<Index> blind_;
  std::vector<float> row_;
  /// [lanes][dims], before they are interleaved.
  std::vector<BFloat16> tile_rows_;
  /// Numbers of the lanes of a tile, and places of the packed keys and their numbers.
  std::vector<Index> lane_numbers_, places_, key_numbers_;
  /// How many keys of the chunk before a place in the sequence were kept.
  std::vector<Index> rank_;
  Index chunk_begin_ = 0;
  Index packed_ = 0;
  /// The first query that has not been fetched ahead.
  Index next_lane_ = 0;
  /// The keys of the chunk, and their sums, are where they are anyway.
  bool in_place_ = false;
  Index head_ = 0;
};

}  // namespace longformer::kernels
