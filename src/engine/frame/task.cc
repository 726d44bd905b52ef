#include "engine/frame/task.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/attention/attention.h"
#include "models/encoder.h"

namespace longformer::engine {

std::unique_ptr<DataSet> DataSet::split_off(std::span<const Index>) {
  fail("expected data that can be split, found others");
}

void DataSet::score(const std::string&, Evaluation&) const {
  fail("expected data of a task whose predictions have a published form, found others");
}

bool Task::is_present(const models::EncoderConfig& config, const models::Weights& weights) const {
  return weights.has(parts(config).value().classifier + ".weight");
}

std::vector<Index> Task::globals_of_ids(const models::EncoderConfig&, std::span<const std::int32_t>,
                                        const std::string&) const {
  return {};
}

std::vector<Index> Task::globals_of_texts(const models::EncoderConfig& config,
                                          const Encoding& tokens, const std::string& name) const {
  return globals_of_ids(config, tokens.ids, name);
}

void Task::check_global_rule(const std::string&) const {}

void Task::check_too_long(TooLong) const {}

std::vector<Index> default_globals(const models::EncoderConfig& config, const Task* task,
                                   std::span<const std::int32_t> ids, const std::string& name) {
  if (task == nullptr || ids.empty() || !config.has_global_projections()) return {};
  return task->globals_of_ids(config, ids, name);
}

ReadingOptions with_globals(const models::EncoderConfig& config, const Task& task,
                            const std::string& name, ReadingOptions options) {
  options.edges = config.edges;
  if (options.global_positions || !config.has_global_projections()) return options;
  options.global_positions = [&config, &task, name](const Encoding& tokens, std::string_view) {
    return tokens.ids.empty() ? std::vector<Index>() : task.globals_of_texts(config, tokens, name);
  };
  return options;
}

Index first_separator(const models::EncoderConfig& config, std::span<const std::int32_t> ids,
                      const std::string& name) {
  const auto separator = static_cast<std::int32_t>(config.sep_token_id);
  const auto found = std::find(ids.begin(), ids.end(), separator);
  require(found != ids.end(),
          "{}: expected a separator (token id {}) behind the question, found none (give a global "
          "attention mask to do without)",
          name, separator);
  return found - ids.begin();
}

std::vector<Index> positions_between(Index begin, Index end) {
  std::vector<Index> positions;
  for (Index i = begin; i < end; ++i) positions.push_back(i);
  return positions;
}

bool reads_pooler(const models::EncoderConfig& config, const Task* task) {
  const auto parts = task == nullptr ? std::nullopt : task->parts(config);
  return parts && parts->reads_pooler();
}

std::vector<models::WeightRecord> head_tensors(const models::EncoderConfig& config,
                                               const Task* task) {
  if (task == nullptr) return {};
  const models::Weights recording = models::Weights::recording();
  task->make_head(config, recording, DType::f32);
  if (reads_pooler(config, task)) {
    models::linear(models::layer_source(config, recording, DType::f32), models::kPooler,
                   {config.hidden_size, config.hidden_size});
  }
  std::vector<models::WeightRecord> tensors = recording.recorded();
  std::erase_if(tensors, [](const models::WeightRecord& tensor) {
    return models::is_of_encoder(tensor.name);
  });
  return tensors;
}

}  // namespace longformer::engine
