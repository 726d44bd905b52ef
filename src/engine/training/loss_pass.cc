#include "engine/training/loss_pass.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "engine/run/finite_results.h"

namespace longformer {
namespace {

void check_finite(const std::vector<float>& values, const char* what) {
  const std::string wrong = why_not_finite(values, what);
  require(wrong.empty(), "{}", wrong);
}

}  // namespace

void LossPass::run_batch(bool keeps_states) {
  RunBatch run = {.first = next_, .end = std::min(next_ + batch_size_, data_.size())};
  std::vector<Index> chosen(at(run.end - run.first));
  std::iota(chosen.begin(), chosen.end(), run.first);
  next_ = run.end;
  engine::TrainingBatch batch = data_.batch(chosen, engine::kUnchanged);
  const ops::LossSum loss = model_.loss(batch, keeps_states ? &run.states : nullptr);
  if (loss.weight != 0) {
    sum_ += static_cast<double>(chosen.size()) * loss.sum / loss.weight;
    count_ += static_cast<double>(chosen.size());
  }
  if (!keeps_states) return;
  run.documents = {0};
  for (const Index rows : batch.questions) run.documents.push_back(run.documents.back() + rows);
  run.vectors = {0};
  for (const DocumentTarget& target : batch.targets) {
    run.vectors.push_back(run.vectors.back() +
                          (target.embedding ? std::ssize(target.embedding->vectors) : 0));
  }
  run.tokens = std::move(batch.tokens.starts);
  // Logits say all that their head can say.
  if (!run.states.said.empty()) run.states.hidden = Tensor();
  batches_.push_back(std::move(run));
}

LossPass::ExampleRows LossPass::rows_of(Index example, Index first) {
  while (next_ <= example) run_batch(/*keeps_states=*/true);
  while (!batches_.empty() && batches_.front().end <= first) batches_.pop_front();
  const auto found =
      std::ranges::find_if(batches_, [&](const RunBatch& one) { return example < one.end; });
  require(found != batches_.end() && example >= found->first,
          "evaluation: expected records in their order, found example {} again", example);
  const std::size_t number = at(example - found->first);
  return {*found, found->documents[number], found->documents[number + 1]};
}

std::vector<std::vector<float>> LossPass::logits(std::size_t record) {
  const auto& [reading, first, end] = this->record(record);
  const bool per_token = model_.implementation().task_head().per_token();
  std::vector<std::vector<float>> logits;
  for (Index example = first; example < end; ++example) {
    const ExampleRows rows = rows_of(example, first);
    for (Index d = rows.first; d < rows.end; ++d) {
      const Index begin = per_token ? rows.batch.tokens[at(d)] : d;
      const Index count = per_token ? rows.batch.tokens[at(d + 1)] - begin : 1;
      logits.push_back(rows.batch.states.said.slice_rows(begin, count).to_floats());
      check_finite(logits.back(), "logits");
    }
  }
  return logits;
}

std::vector<std::vector<float>> LossPass::vectors(std::size_t record) {
  const auto& [reading, first, end] = this->record(record);
  std::vector<std::vector<float>> vectors;
  for (Index example = first; example < end; ++example) {
    const ExampleRows rows = rows_of(example, first);
    const RunBatch& batch = rows.batch;
    for (Index v = batch.vectors[at(rows.first)]; v < batch.vectors[at(rows.end)]; ++v) {
      vectors.push_back(batch.states.said.slice_rows(v, 1).to_floats());
      check_finite(vectors.back(), "vectors");
    }
  }
  return vectors;
}

void LossPass::with_states(std::size_t record, const engine::UseStates& use) {
  const auto& [reading, first, end] = this->record(record);
  require(end == first + 1, "evaluation: expected one example of a record, found {}", end - first);
  const ExampleRows rows = rows_of(first, first);
  const Index begin = rows.batch.tokens[at(rows.first)];
  const Tensor hidden =
      rows.batch.states.hidden.slice_rows(begin, rows.batch.tokens[at(rows.end)] - begin);
  const Model::Implementation& model = model_.implementation();
  const auto turn = model.turn();
  use(model.context(), model.task_head(), hidden);
}

double LossPass::mean_loss() {
  batches_.clear();
  while (next_ < data_.size()) run_batch(/*keeps_states=*/false);
  return count_ > 0 ? sum_ / count_ : 0;
}

}  // namespace longformer
