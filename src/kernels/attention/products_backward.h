// The backward pass of products.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/backward.h"
#include "kernels/attention/product_keys.h"
#include "kernels/attention/product_rows.h"

namespace longformer::kernels {

/// Like BackwardWorker, by products of whole tiles: with scores and what follows from them
/// transposed, four of the five products have their rows where they are.
class ProductBackwardWorker {
 public:
  explicit ProductBackwardWorker(const BackwardPlan& plan);

  void run(Index head, Range queries, HeadSums& sums);

 private:
  void run(const Task& task, HeadSums& sums);
  void send_back_tile(std::span<const Lane> lanes, HeadSums& sums);
  void load_queries(std::span<const Lane> lanes);
  void send_back(std::span<const Lane> lanes, Range Lane::*range, const KeyBlock& block,
                 HeadSums& sums);
  SoftmaxGradientRows gradient_rows(const KeyBlock& block);
  void add_gathered(HeadSums& sums) const;
  void write_query_gradients(std::span<const Lane> lanes) const;
  void write_zeros(Index row) const;

  const BackwardPlan& plan_;
  RowKernels kernels_;
  PreparedProducts products_;
  ProductKeys keys_;
  KeySequence sequence_;
  Index head_ = 0;
  std::vector<Task> tasks_;
  std::vector<Lane> lanes_;
  std::vector<Index> blind_;
  /// Gradients of the gathered keys and values.
  std::vector<float> gathered_keys_, gathered_values_;

  std::shared_ptr<void> memory_;
  // [columns, queries]
  float* scores_ = nullptr;
  float* changes_ = nullptr;
  BFloat16* weights_ = nullptr;
  BFloat16* slopes_ = nullptr;
  // [queries, d]
  const BFloat16* queries_ = nullptr;
  BFloat16* gathered_queries_ = nullptr;
  BFloat16* gradients_ = nullptr;
  float* query_gradients_ = nullptr;
  // [queries]
  float* first_ = nullptr;
  float* last_ = nullptr;
  float* exponents_ = nullptr;
  float* means_ = nullptr;
  std::uint32_t* starts_ = nullptr;
  std::uint32_t* twists_ = nullptr;
  /// Nothing has been added to the gradients of the queries of the tile yet.
  bool fresh_ = true;
};

}  // namespace longformer::kernels
