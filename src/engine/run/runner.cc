#include "engine/run/runner.h"

#include <algorithm>

#include "core/error.h"
#include "engine/run/model_implementation.h"

namespace longformer {

bool Wave::add(const Work& work) {
  const auto size = static_cast<std::int64_t>(work.row.ids.size());
  if (!rows_.empty() && tokens_ + size > most_tokens_) return false;
  rows_.push_back(work);
  tokens_ += size;
  return true;
}

Turn Runner::turn() { return {turns_, model_.threads}; }

ops::Context Runner::context() {
  return {.memory = memory_, .dtype = model_.dtype, .threads = model_.threads};
}

std::vector<RowResult> Runner::run(const Wave& wave) {
  if (wave.empty()) return {};
  Request mine{.wave = wave};
  {
    const std::lock_guard lock(waiting_mutex_);
    waiting_.push_back(&mine);
  }
  Turn turn = this->turn();
  // A caller whose turn came earlier may have run this wave with its own.
  if (mine.done) return std::move(mine.results);
  const std::vector<Request*> batch = batch_with(mine);
  std::int64_t tokens = 0;
  for (const Request* request : batch) tokens += request->wave.tokens_;
  turn.computes(tokens);
  run_batch(batch);
  return std::move(mine.results);
}

std::size_t Runner::waiting() const {
  const std::lock_guard lock(waiting_mutex_);
  return waiting_.size();
}

std::vector<Runner::Request*> Runner::batch_with(Request& mine) {
  const std::lock_guard lock(waiting_mutex_);
  std::vector<Request*> chosen = {&mine};
  std::int64_t tokens = mine.wave.tokens_;
  for (Request* other : waiting_) {
    const Wave& wave = other->wave;
    const bool fits = wave.wanted_ == mine.wave.wanted_ &&
                      tokens + wave.tokens_ <= std::min(mine.wave.most_tokens_, wave.most_tokens_);
    if (other == &mine || !fits) continue;
    tokens += wave.tokens_;
    chosen.push_back(other);
  }
  std::erase_if(waiting_, [&](const Request* request) {
    return std::find(chosen.begin(), chosen.end(), request) != chosen.end();
  });
  return chosen;
}

void Runner::run_batch(std::span<Request* const> requests) {
  try {
    std::vector<Place> rows;
    for (Request* request : requests) {
      request->results.resize(request->wave.rows_.size());
      for (std::size_t i = 0; i < request->results.size(); ++i) {
        rows.emplace_back(&request->wave.rows_[i], &request->results[i]);
      }
    }
    run_rows(requests[0]->wave.wanted_, rows);
  } catch (...) {
    // It may be the interruption of the caller alone: the others run theirs when it is their turn.
    for (Request* request : requests) request->results.clear();
    throw;
  }
  for (Request* request : requests) request->done = true;
}

void Runner::run_rows(Wanted wanted, std::span<const Place> rows) {
  try {
    forward(wanted, rows);
  } catch (const Error& error) {
    // The pass itself failed; taken one by one, the other rows keep their results.
    if (rows.size() > 1) {
      for (std::size_t i = 0; i < rows.size(); ++i) run_rows(wanted, rows.subspan(i, 1));
    } else {
      *rows[0].second = {.values = {}, .error = error.what()};
    }
  }
}

void Runner::forward(Wanted wanted, std::span<const Place> rows) {
  models::BatchBuilder builder(model_.config);
  const std::vector<Place> taken = accepted(wanted, rows, builder);
  if (taken.empty()) return;
  ++passes_;
  const models::Batch batch = builder.finish();
  const Tensor hidden = model_.encoder.forward(context(), batch);
  if (wanted == Wanted::states) {
    copy_states(taken, batch, hidden);
  } else {
    store_values(wanted, taken, batch, hidden);
  }
}

/// Adds the rows to the batch. Those that the model refuses get an error and are left out.
std::vector<Runner::Place> Runner::accepted(Wanted wanted, std::span<const Place> rows,
                                            models::BatchBuilder& builder) const {
  const tasks::Task* task = wanted == Wanted::logits ? model_.task : nullptr;
  std::vector<Place> taken;
  for (const Place& place : rows) {
    const auto& [work, result] = place;
    const tasks::TokenRow& row = work->row;
    try {
      const std::vector<Index> globals =
          row.global_positions ? *row.global_positions
                               : tasks::default_globals(model_.config, task, row.ids, "document");
      builder.add({.ids = row.ids,
                   .types = row.types,
                   .positions = work->positions,
                   .mask = work->mask,
                   .globals = globals},
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
  memory_.shrink(bytes);
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
