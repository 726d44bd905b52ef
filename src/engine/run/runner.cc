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
  const tasks::Task* task = wanted == Wanted::logits ? model_.task : nullptr;
  models::BatchBuilder builder(model_.config);
  std::vector<ops::RowRange> ranges;
  std::vector<Place> taken;
  for (const Place& place : rows) {
    const auto& [work, result] = place;
    const tasks::TokenRow& row = work->row;
    const Index first = builder.rows();
    try {
      const std::vector<Index> globals =
          row.global_positions ? *row.global_positions
                               : tasks::default_globals(model_.config, task, row.ids, "document");
      builder.add({.ids = row.ids, .types = row.types, .globals = globals}, "document");
    } catch (const Error& error) {
      *result = {.values = {}, .error = error.what()};
      continue;
    }
    taken.push_back(place);
    for (const ops::RowRange& range : work->ranges) {
      ranges.push_back({first + range.begin, first + range.end});
    }
  }
  if (taken.empty()) return;
  ++passes_;
  const models::Batch batch = builder.finish();
  const ops::Context context = this->context();
  const Tensor hidden = model_.encoder.forward(context, batch);
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
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto& [work, result] = taken[i];
    Index count = static_cast<Index>(work->ranges.size());
    if (wanted == Wanted::logits) count = per_token ? batch.starts[i + 1] - batch.starts[i] : 1;
    if (count > 0) result->values = values.slice_rows(first, count).to_floats();
    first += count;
  }
}

}  // namespace longformer
