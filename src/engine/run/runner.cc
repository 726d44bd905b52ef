#include "engine/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "core/error.h"
#include "core/hash.h"
#include "core/threads.h"
#include "engine/run/model_implementation.h"
#include "models/document_part.h"
#include "training/team.h"

namespace longformer {

bool Wave::add(const Work& work) {
  const auto size = static_cast<std::int64_t>(work.row.ids.size());
  if (!rows_.empty() && tokens_ + size > most_tokens_) return false;
  rows_.push_back(work);
  tokens_ += size;
  return true;
}

namespace {

/// The batches of servers with one queue, to compare with.
constexpr std::int64_t kArrivalTokens = 16384;
/// A wave takes others with it as far as all of it takes no longer than this, so that nobody waits
/// long for a stranger. Larger batches gain little: a pass of 64 tokens computes at 0.81 of the
/// rate of the machine's products, one of 512 at 0.91.
constexpr double kSharedSeconds = 0.05;
constexpr std::int64_t kLeastShared = 64;

/// Runs the work; a rank that is lost is an Error for the caller.
template <typename Work>
auto answered(Work&& work) {
  try {
    return work();
  } catch (const RankLost& lost) {
    fail("{}", lost.what());
  }
}

template <typename Value>
std::uint64_t hash_of(const std::vector<Value>& values, std::uint64_t before) {
  const std::span bytes = std::as_bytes(std::span(values));
  return fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, before);
}

/// The first token as a document of its own, for heads that read nothing else.
models::Batch first_token(const models::Batch& document) {
  return {.ids = {document.ids[0]},
          .types = {document.types[0]},
          .positions = {document.positions[0]},
          .starts = {0, 1},
          .mask = {},
          .global_rows = {}};
}

}  // namespace

/// A wave that waits, and its results, which another thread may fill in.
struct Runner::Request : Turns::Waiter {
  Request(Turns::Claim claim, Turns::Width width, const void* kind, const Wave& its_wave)
      : Waiter(claim, width, kind), wave(its_wave) {}

  const Wave& wave;
  std::vector<RowResult> results = {};
};

int Runner::threads() const { return model_.threads; }

ops::Context Runner::context() {
  return {.memory = turns_->memory(), .dtype = model_.dtype, .threads = model_.threads};
}

Turns::Claim Runner::claim_of(const Wave& wave) const {
  if (wave.pending_ == nullptr) return claim_of(wave.tokens_);
  return {.rest = seconds_of(std::max(wave.pending_->rest_.load(), wave.tokens_)),
          .whole = seconds_of(std::max(wave.pending_->whole_.load(), wave.tokens_)),
          .since = wave.pending_->since_};
}

std::vector<RowResult> Runner::run(const Wave& wave) {
  if (wave.empty()) return {};
  Request mine(claim_of(wave), {.most = threads(), .tokens = wave.tokens_},
               &kinds_[static_cast<std::size_t>(wave.wanted_)], wave);
  {
    Turn turn(*turns_, mine);
    // Another thread may have run this wave with its own.
    if (turn.is_mine()) answered([&] { run_together(turn, mine); });
  }
  if (wave.pending_ != nullptr) wave.pending_->rest_ -= wave.tokens_;
  return std::move(mine.results);
}

std::int64_t Runner::most_shared(const Turn& turn) const {
  if (turns_->order() == Turns::Order::arrival) return kArrivalTokens;
  const double share = static_cast<double>(turn.threads()) / threads();
  return std::max(kLeastShared, times_.tokens_in(share * kSharedSeconds));
}

/// Runs the wave of the turn, and with it those that wait for the same kind of result and fit.
void Runner::run_together(Turn& turn, Request& mine) {
  std::int64_t tokens = mine.wave.tokens_;
  const std::int64_t most = std::max(tokens, most_shared(turn));
  const auto taken = turns_->take(mine, [&](const Turns::Waiter& other) {
    const Wave& wave = static_cast<const Request&>(other).wave;
    const std::int64_t together = tokens + wave.tokens_;
    if (together > std::min({most, mine.wave.most_tokens_, wave.most_tokens_})) return false;
    tokens = together;
    return true;
  });
  std::vector<Request*> requests = {&mine};
  try {
    for (Turns::Waiter* other : taken) requests.push_back(static_cast<Request*>(other));
    turn.computes(tokens);
    std::vector<Place> rows;
    for (Request* request : requests) {
      request->results.resize(request->wave.rows_.size());
      for (std::size_t i = 0; i < request->results.size(); ++i) {
        rows.emplace_back(&request->wave.rows_[i], &request->results[i]);
      }
    }
    run_rows(turn, mine.wave.wanted_, rows);
  } catch (...) {
    // It may be the interruption of the caller alone: the others run theirs when it is their turn.
    for (Request* request : requests) request->results.clear();
    turns_->put_back(taken);
    throw;
  }
  turns_->finish(taken);
}

void Runner::run_rows(Turn& turn, Wanted wanted, std::span<const Place> rows) {
  try {
    forward(turn, wanted, rows);
  } catch (const Error& error) {
    // The pass itself failed; taken one by one, the other rows keep their results.
    if (rows.size() > 1) {
      for (std::size_t i = 0; i < rows.size(); ++i) run_rows(turn, wanted, rows.subspan(i, 1));
    } else {
      *rows[0].second = {.values = {}, .error = error.what()};
    }
  }
}

void Runner::forward(Turn& turn, Wanted wanted, std::span<const Place> rows) {
  if (model_.ranks) {
    for (const Place& row : rows) forward_part(turn, wanted, row);
    return;
  }
  models::BatchBuilder builder(model_.config);
  const std::vector<Place> taken = accepted(wanted, rows, builder);
  if (taken.empty()) return;
  ++passes_;
  const models::Batch batch = builder.finish();
  const double before = turn.seconds();
  const Tensor hidden = run_encoder(turn, batch, {});
  if (wanted == Wanted::states) {
    copy_states(taken, batch, hidden);
  } else {
    store_values(wanted, taken, batch, hidden);
  }
  times_.add(batch.rows(), turn.seconds() - before);
}

models::DocumentPart Runner::part_of(const models::Batch& document) const {
  const models::EncoderConfig& config = model_.config;
  std::uint64_t hash =
      fnv1a(fmt::format("{} {} {} {} {}", config.model_type(), config.layers, config.hidden_size,
                        config.vocab_size, name_of(model_.dtype)));
  hash = hash_of(document.types, hash_of(document.ids, hash));
  hash = hash_of(document.mask, hash_of(document.positions, hash));
  training::Team(model_.ranks.get())
      .check_same(hash_of(document.global_rows, hash), "the same model and document");
  return {*model_.ranks, config, document};
}

/// One row over all ranks. A row that the model refuses is refused by all of them.
void Runner::forward_part(Turn& turn, Wanted wanted, const Place& row) {
  models::BatchBuilder builder(model_.config);
  if (accepted(wanted, {&row, 1}, builder).empty()) return;
  ++passes_;
  const models::Batch document = builder.finish();
  try {
    const models::DocumentPart part = part_of(document);
    const double before = turn.seconds();
    const Tensor hidden = run_encoder(turn, part.batch(), {.part = &part});
    if (wanted == Wanted::states) {
      copy_states({&row, 1}, document, part.gathered(hidden).to(model_.dtype));
    } else {
      row.second->values = values_of_part(wanted, *row.first, document, part, hidden);
    }
    times_.add(part.batch().rows(), turn.seconds() - before);
  } catch (const Error& error) {
    *row.second = {.values = {}, .error = error.what()};
  }
}

/// Values like those of store_values, from the hidden states of all ranks. Logits of tokens, and
/// states for heads that read more of them than one row, are all that is sent for each token.
std::vector<float> Runner::values_of_part(Wanted wanted, const Work& work,
                                          const models::Batch& document,
                                          const models::DocumentPart& part, const Tensor& hidden) {
  const ops::Context context = this->context();
  if (wanted == Wanted::logits) {
    if (model_.head->per_token()) {
      return part.gathered(model_.logits(context, part.batch(), hidden)).to_floats();
    }
    if (model_.config.head.pooling == models::DocumentPooling::first) {
      const Tensor first = part.first_row(hidden).to(model_.dtype);
      return model_.logits(context, first_token(document), first).to_floats();
    }
    return model_.logits(context, document, part.gathered(hidden).to(model_.dtype)).to_floats();
  }
  std::vector<ops::RowRange> ranges;
  for (const ops::RowRange& range : work.ranges) ranges.push_back(part.own(range));
  if (ranges.empty()) return {};
  if (wanted == Wanted::sums) {
    std::vector<float> sums = ops::sum_rows(context, hidden, ranges).to_floats();
    model_.ranks->sum(std::span(sums));
    return sums;
  }
  std::vector<float> maxima = ops::max_rows(context, hidden, ranges).to_floats();
  // Libraries differ in the maximum of NaN, which must show.
  std::vector<float> wrong;
  for (const float value : maxima) wrong.push_back(std::isnan(value) ? value : 0);
  model_.ranks->max(maxima);
  model_.ranks->sum(std::span(wrong));
  for (std::size_t i = 0; i < maxima.size(); ++i) maxima[i] += wrong[i];
  return maxima;
}

Tensor Runner::encode(Turn& turn, const models::Batch& batch, models::PassOptions options) {
  if (!model_.ranks) return run_encoder(turn, batch, options);
  require(options.observer == nullptr && options.layer_inputs == nullptr,
          "ranks: expected a pass without a look at its attention or layers, found one");
  return answered([&] {
    const models::DocumentPart part = part_of(batch);
    options.part = &part;
    const auto whole = [&](const Tensor& rows) { return part.gathered(rows).to(model_.dtype); };
    const Tensor hidden = run_encoder(turn, part.batch(), options);
    if (options.hidden_states != nullptr) {
      for (Tensor& state : *options.hidden_states) state = whole(state);
    }
    return whole(hidden);
  });
}

Tensor Runner::run_encoder(Turn& turn, const models::Batch& batch, models::PassOptions options) {
  const std::function<void(Index, Index)> between = [&turn](Index done, Index parts) {
    turn.reached(done, parts);
  };
  options.between = &between;
  ops::Context context = this->context();
  // The rows of a short pass are cut for its threads; a long one may get more of them on the way.
  if (batch.rows() <= Turns::kShortTokens) context.threads = std::min(threads(), free_threads());
  const double before = turn.seconds();
  Tensor hidden = model_.encoder.forward(context, batch, options);
  if (model_.pass) model_.pass({batch.documents(), batch.rows(), turn.seconds() - before});
  return hidden;
}

/// Adds the rows to the batch. Those that the model refuses get an error and are left out.
std::vector<Runner::Place> Runner::accepted(Wanted wanted, std::span<const Place> rows,
                                            models::BatchBuilder& builder) const {
  const engine::Task* task = wanted == Wanted::logits ? model_.task : nullptr;
  std::vector<Place> taken;
  for (const Place& place : rows) {
    const auto& [work, result] = place;
    const engine::TokenRow& row = work->row;
    try {
      const std::vector<Index> globals =
          row.global_positions ? *row.global_positions
                               : engine::default_globals(model_.config, task, row.ids, "document");
      builder.add({.ids = row.ids,
                   .types = row.types,
                   .positions = work->positions,
                   .mask = work->mask,
                   .globals = globals,
                   .edges = row.edges},
                  "document");
      taken.push_back(place);
    } catch (const Error& error) {
      *result = {.values = {}, .error = error.what()};
    }
  }
  return taken;
}

void Runner::copy_states(std::span<const Place> rows, const models::Batch& batch,
                         const Tensor& hidden) {
  // A caller's new memory takes pages when it is first written. Unused buffers make room for it, so
  // that the process needs no more than the pass itself did.
  std::size_t bytes = 0;
  for (const Place& place : rows) bytes += place.first->states.bytes();
  turns_->memory().shrink(bytes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Work& work = *rows[i].first;
    const Index first = batch.starts[i];
    ops::copy_rows(hidden.slice_rows(first, batch.starts[i + 1] - first), work.ranges, work.states);
  }
}

void Runner::store_values(Wanted wanted, std::span<const Place> rows, const models::Batch& batch,
                          const Tensor& hidden) {
  const ops::Context context = this->context();
  std::vector<ops::RowRange> ranges;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Index first = batch.starts[i];
    for (const ops::RowRange& range : rows[i].first->ranges) {
      ranges.push_back({first + range.begin, first + range.end});
    }
  }
  Tensor values;
  bool per_token = false;
  if (wanted == Wanted::logits) {
    values = model_.logits(context, batch, hidden);
    per_token = model_.head->per_token();
  } else if (!ranges.empty()) {
    values = wanted == Wanted::sums ? ops::sum_rows(context, hidden, ranges)
                                    : ops::max_rows(context, hidden, ranges);
  }
  Index first = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [work, result] = rows[i];
    Index count = static_cast<Index>(work->ranges.size());
    if (wanted == Wanted::logits) count = per_token ? batch.starts[i + 1] - batch.starts[i] : 1;
    if (count > 0) result->values = values.slice_rows(first, count).to_floats();
    first += count;
  }
}

}  // namespace longformer
