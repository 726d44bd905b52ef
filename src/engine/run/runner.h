// Between callers and a model: rows of any number of threads, run in batches.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/turns.h"
#include "engine/reading/reading.h"
#include "longformer/model.h"
#include "models/batch.h"
#include "ops/context.h"
#include "ops/embedding.h"

namespace longformer {

/// Result that a row is run for: the logits of the head, sums or maxima of its hidden states, or
/// the states themselves.
enum class Wanted { logits, sums, maxima, states };

/// A row that is to be run; its parts must outlive the run.
struct Work {
  const tasks::TokenRow& row;
  /// Tokens of the row: each range is folded into one vector, or its states are copied. Logits need
  /// no ranges.
  std::span<const ops::RowRange> ranges = {};
  /// The states of the ranges, one after another, are copied to this tensor of the model's dtype.
  /// It must not come from the pool, whose tensors serve one forward pass at a time.
  Tensor states = {};
  /// The rest of models::Sequence, [n] each; empty for the usual values.
  std::span<const std::int32_t> positions = {}, mask = {};
};

struct RowResult {
  /// Logits, [outputs] or [n, outputs] of a head that speaks for every token; or [ranges, D]. Empty
  /// for states, which are in Work::states.
  std::vector<float> values;
  /// Why the model refuses the row; then there are no values.
  std::string error;
};

/// Rows of one caller that are run together.
class Wave {
 public:
  /// At most so many tokens, but at least one row.
  Wave(Wanted wanted, std::int64_t most_tokens) : wanted_(wanted), most_tokens_(most_tokens) {}

  /// False, and nothing is added, when there is no room for the row.
  bool add(const Work& work);
  bool empty() const { return rows_.empty(); }
  std::int64_t tokens() const { return tokens_; }

 private:
  friend class Runner;
  Wanted wanted_;
  std::int64_t most_tokens_, tokens_ = 0;
  std::vector<Work> rows_;
};

/// One computation at a time, in the order in which callers ask. Waves that wait for the same thing
/// become one batch as far as they fit.
class Runner {
 public:
  /// The model must outlive the runner.
  explicit Runner(const Model::Implementation& model) : model_(model) {}

  /// One result for each row, in order. A row that the model refuses spoils no other.
  std::vector<RowResult> run(const Wave& wave);

  /// Waves that nobody has begun to run.
  std::size_t waiting() const;

  /// Forward passes so far.
  std::int64_t passes() const { return passes_; }

  /// For what is not a wave.
  Turn turn();
  /// Valid while it is one's turn: the pool serves one forward pass at a time.
  ops::Context context();

 private:
  /// A wave and its results, which another thread may fill in.
  struct Request {
    const Wave& wave;
    std::vector<RowResult> results = {};
    bool done = false;
  };
  using Place = std::pair<const Work*, RowResult*>;

  std::vector<Request*> batch_with(Request& mine);
  void run_batch(std::span<Request* const> requests);
  void run_rows(Wanted wanted, std::span<const Place> rows);
  void forward(Wanted wanted, std::span<const Place> rows);
  std::vector<Place> accepted(Wanted wanted, std::span<const Place> rows,
                              models::BatchBuilder& builder) const;
  void copy_states(std::span<const Place> rows, const models::Batch& batch, const Tensor& hidden);
  void store_values(Wanted wanted, std::span<const Place> rows, const models::Batch& batch,
                    const Tensor& hidden);

  const Model::Implementation& model_;
  Turns turns_;
  MemoryPool memory_;
  mutable std::mutex waiting_mutex_;
  std::vector<Request*> waiting_;
  std::atomic<std::int64_t> passes_ = 0;
};

}  // namespace longformer
