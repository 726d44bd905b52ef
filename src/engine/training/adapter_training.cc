#include "engine/training/adapter_training.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/words.h"
#include "formats/json.h"
#include "models/registry.h"
#include "models/trained_folder.h"

namespace longformer {
namespace {

std::vector<std::string> names_in_list(const std::string& list) {
  std::vector<std::string> names;
  for (const std::string_view name : parts_of_list(list)) {
    require(!name.empty(), OptionName("training.lora_target"),
            "expected names between commas, found {}", formats::quote(list));
    names.emplace_back(name);
  }
  return names;
}

}  // namespace

bool trains_adapter(const TrainingOptions& options) {
  return options.lora_rank > 0 || !options.adapter.empty();
}

double passes_of_step(const TrainingOptions& options) { return trains_adapter(options) ? 2 : 3; }

std::optional<models::AdapterTraining> adapter_training(
    const TrainingOptions& options, std::vector<std::string> usual,
    std::function<bool(const std::string& name)> is_kept) {
  if (!options.adapter.empty()) return models::AdapterTraining{};
  if (options.lora_rank == 0) return std::nullopt;
  const auto rank = static_cast<double>(options.lora_rank);
  return models::AdapterTraining{
      .config = {.rank = options.lora_rank,
                 .alpha = options.lora_alpha > 0 ? options.lora_alpha : 2 * rank,
                 .dropout = options.lora_dropout,
                 .targets = options.lora_target.empty() ? std::move(usual)
                                                        : names_in_list(options.lora_target)},
      .is_kept = std::move(is_kept)};
}

std::optional<models::AdapterTraining> adapter_training(const TrainingOptions& options,
                                                        const models::EncoderConfig& config) {
  std::vector<std::string> usual;
  const std::string self = "encoder.layer.0.attention.self.";
  const models::TensorNames& names = config.family->names;
  const auto add = [&](const std::string& layer) {
    const std::string name = names.module_layer(layer);
    const std::string last = name.substr(name.rfind('.') + 1);
    if (std::find(usual.begin(), usual.end(), last) == usual.end()) usual.push_back(last);
  };
  std::vector<std::string> parts = {"query", "value"};
  // One module has the keys too.
  const bool is_one = names.modules_of(self + "query_key_value").size() == 1;
  if (config.recipe.packs_projections && is_one) parts = {"query_key_value"};
  if (config.recipe.funnel) parts = {"q_head", "v_head"};
  if (config.reformer && config.reformer->has(models::ChunkLayer::lsh)) {
    parts.push_back("query_key");
    if (!config.reformer->has(models::ChunkLayer::local)) parts.erase(parts.begin());
  }
  for (const std::string& part : parts) add(self + part);
  if (config.decoder) {
    for (const char* part : {"q_proj", "v_proj"}) {
      add(std::string("decoder.layers.0.self_attn.") + part);
    }
  }
  return adapter_training(options, std::move(usual), [config](const std::string& name) {
    return models::is_kept_by_adapters(config, name);
  });
}

}  // namespace longformer
