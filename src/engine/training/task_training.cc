#include "engine/training/task_training.h"

#include <algorithm>

#include "core/hash.h"
#include "core/random.h"
#include "engine/frame/epoch_order.h"
#include "formats/json.h"

namespace longformer {

training::MicroBatchLoss TaskObjective::run(const training::MicroBatch& micro) {
  if (micro.epoch != epoch_) reorder(micro.epoch);
  const Index first = micro.index * batch_size();
  const Index end = std::min(first + batch_size(), data_.size());
  const std::span<const Index> chosen(order_.begin() + first, order_.begin() + end);
  const engine::Epoch epoch = {.seed = options_.seed, .number = epoch_};
  if (part_size_ == 0 || std::ssize(chosen) <= part_size_) {
    return model_.step(data_.batch(chosen, epoch), micro.seed);
  }
  std::vector<engine::TrainingBatch> parts;
  for (Index begin = 0; begin < std::ssize(chosen); begin += part_size_) {
    const Index count = std::min(part_size_, std::ssize(chosen) - begin);
    parts.push_back(data_.batch(chosen.subspan(at(begin), at(count)), epoch));
  }
  return model_.step_in_parts(parts, micro.seed);
}

nlohmann::ordered_json TaskObjective::setup() const {
  nlohmann::ordered_json setup = model_.description();
  // Another split is other rows: it is what tells them apart.
  setup.update(facts_);
  // Rows of the same lengths in the same order are the same texts, read in the same way.
  const auto& lengths = data_.lengths();
  const std::string_view bytes(reinterpret_cast<const char*>(lengths.data()),
                               lengths.size() * sizeof(Index));
  setup["rows of the training data"] = data_.size();
  setup["hash of the lengths of the rows"] = fnv1a(bytes);
  return setup;
}

void TaskObjective::save(const std::filesystem::path& folder) {
  model_.save(folder);
  if (!file_.first.empty()) formats::write_file((folder / file_.first).string(), file_.second);
}

void TaskObjective::reorder(std::int64_t epoch) {
  epoch_ = epoch;
  const std::uint64_t seed = random_bits(options_.seed, static_cast<std::uint64_t>(epoch));
  order_ = options_.group_by_length
               ? engine::shuffled_by_length(data_.lengths(), batch_size(), seed)
               : engine::shuffled(data_.size(), seed);
}

}  // namespace longformer
