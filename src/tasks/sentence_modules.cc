#include "tasks/sentence_modules.h"

#include <array>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

std::string read_pooling(const std::string& path) {
  const auto json = formats::read_json(path);
  const formats::ConfigReader config(json, path);
  constexpr std::array<std::pair<const char*, const char*>, 3> kSupported = {
      {{"pooling_mode_cls_token", "cls"},
       {"pooling_mode_mean_tokens", "mean"},
       {"pooling_mode_max_tokens", "max"}}};
  std::string chosen;
  for (const auto& [key, name] : kSupported) {
    if (!config.boolean(key, false)) continue;
    require(chosen.empty(), "{}: expected one pooling mode, found {} and {}", path, chosen, name);
    chosen = name;
  }
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens",
                          "pooling_mode_lasttoken"}) {
    require(!config.boolean(key, false), "{}: expected cls, mean or max pooling, found {}", path,
            key);
  }
  require(!chosen.empty(), "{}: expected a pooling mode that is true, found none", path);
  return chosen;
}

bool lists_normalize(const std::string& path) {
  const auto modules = formats::read_json(path);
  require(modules.is_array(), "{}: expected a list of modules", path);
  for (const auto& module : modules) {
    if (!module.is_object() || !module.contains("type") || !module["type"].is_string()) continue;
    if (module["type"].get<std::string>().ends_with("Normalize")) return true;
  }
  return false;
}

}  // namespace

SentenceModules read_sentence_modules(const std::string& folder) {
  SentenceModules modules;
  const std::string pooling = folder + "/1_Pooling/config.json";
  if (std::filesystem::exists(pooling)) modules.pooling = read_pooling(pooling);
  const std::string list = folder + "/modules.json";
  modules.normalize = std::filesystem::exists(list)
                          ? lists_normalize(list)
                          : std::filesystem::exists(folder + "/2_Normalize");
  return modules;
}

}  // namespace longformer::tasks
