// Between callers and a model: rows of any number of threads, run in batches.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/turns.h"
#include "engine/reading/reading.h"
#include "engine/run/pass_times.h"
#include "longformer/model.h"
#include "models/batch.h"
#include "models/stack.h"
#include "ops/context.h"
#include "ops/embedding.h"

namespace longformer {

namespace models {
class DocumentPart;
}

/// Result that a row is run for: the logits of the head, sums or maxima of its hidden states, or
/// the states themselves.
enum class Wanted { logits, sums, maxima, states };

/// A row that is to be run; its parts must outlive the run.
struct Work {
  const engine::TokenRow& row;
  /// Tokens of the row: each range is folded into one vector, or its states are copied. Logits need
  /// no ranges.
  std::span<const ops::RowRange> ranges = {};
  /// The states of the ranges, one after another, are copied to this tensor of the model's dtype.
  /// It must not come from the pool: the caller keeps it.
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

/// The rows of one call that are not computed yet: the call with the fewest goes first.
class Pending {
 public:
  explicit Pending(std::int64_t tokens = 0) : rest_(tokens), whole_(tokens) {}

  /// Further rows of the call, as they become known; any thread.
  void add(std::int64_t tokens) {
    rest_ += tokens;
    whole_ += tokens;
  }

 private:
  friend class Runner;
  std::atomic<std::int64_t> rest_, whole_;
  Turns::Clock::time_point since_ = Turns::Clock::now();
};

/// Rows of one caller that are run together.
class Wave {
 public:
  /// At most so many tokens, but at least one row. Without pending rows of its call it is alone.
  Wave(Wanted wanted, std::int64_t most_tokens, Pending* pending = nullptr)
      : wanted_(wanted), most_tokens_(most_tokens), pending_(pending) {}

  /// False, and nothing is added, when there is no room for the row.
  bool add(const Work& work);
  bool empty() const { return rows_.empty(); }
  std::int64_t tokens() const { return tokens_; }

 private:
  friend class Runner;
  Wanted wanted_;
  std::int64_t most_tokens_, tokens_ = 0;
  Pending* pending_;
  std::vector<Work> rows_;
};

/// Waves in the order of Turns: a wave waits for shorter calls, short ones run side by side, and a
/// pass lends its turn to much shorter ones between two sub-layers. Waves that wait for the same
/// thing become one batch as far as they fit.
class Runner {
 public:
  /// The model must outlive the runner.
  Runner(const Model::Implementation& model, std::shared_ptr<Turns> turns)
      : model_(model), turns_(turns ? std::move(turns) : std::make_shared<Turns>()) {}

  const Turns& turns() const { return *turns_; }

  /// One result for each row, in order. A row that the model refuses spoils no other.
  std::vector<RowResult> run(const Wave& wave);

  /// Calls that wait for their turn.
  std::size_t waiting() const { return turns_->waiting(); }

  /// How long a pass of so many tokens takes on all threads, by those before it; 0 before the first
  /// one.
  double seconds_of(std::int64_t tokens) const { return times_.seconds_of(tokens); }

  /// Forward passes so far.
  std::int64_t passes() const { return passes_; }

  /// The claim of a pass of so many tokens.
  Turns::Claim claim_of(std::int64_t tokens) const {
    const double seconds = seconds_of(tokens);
    return {.rest = seconds, .whole = seconds};
  }

  /// For what is not a wave.
  Turn turn(Turns::Claim claim = {}) { return {*turns_, threads(), claim}; }

  /// The encoder of the model in a turn of the caller, which it lends between sub-layers. Over
  /// ranks a batch is one document, and all of them get all of its rows.
  Tensor encode(Turn& turn, const models::Batch& batch, models::PassOptions options = {});

  /// For the thread whose turn it is.
  ops::Context context();

 private:
  struct Request;
  using Place = std::pair<const Work*, RowResult*>;

  int threads() const;
  Turns::Claim claim_of(const Wave& wave) const;
  /// Tokens of all waves that become one pass.
  std::int64_t most_shared(const Turn& turn) const;
  void run_together(Turn& turn, Request& mine);
  void run_rows(Turn& turn, Wanted wanted, std::span<const Place> rows);
  void forward(Turn& turn, Wanted wanted, std::span<const Place> rows);
  Tensor run_encoder(Turn& turn, const models::Batch& batch, models::PassOptions options);
  /// The part of this rank of a document that all ranks have.
  models::DocumentPart part_of(const models::Batch& document) const;
  void forward_part(Turn& turn, Wanted wanted, const Place& row);
  std::vector<float> values_of_part(Wanted wanted, const Work& work, const models::Batch& document,
                                    const models::DocumentPart& part, const Tensor& hidden);
  std::vector<Place> accepted(Wanted wanted, std::span<const Place> rows,
                              models::BatchBuilder& builder) const;
  void copy_states(std::span<const Place> rows, const models::Batch& batch, const Tensor& hidden);
  void store_values(Wanted wanted, std::span<const Place> rows, const models::Batch& batch,
                    const Tensor& hidden);

  const Model::Implementation& model_;
  std::shared_ptr<Turns> turns_;
  /// Waves of one kind of result may share a pass; its address names the kind.
  std::array<char, 4> kinds_ = {};
  PassTimes times_;
  std::atomic<std::int64_t> passes_ = 0;
};

}  // namespace longformer
