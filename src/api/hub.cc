#include "longformer/hub.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "hub/cache.h"
#include "hub/names.h"
#include "hub/settings.h"
#include "longformer/checkpoint.h"
#include "models/adapter.h"
#include "text/encoder_folder.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;

fs::path snapshot_of(const hub::ModelName& name) {
  return hub::Repository(hub::cache_folder(), name.repository).snapshot_of(name.revision);
}

/// Whether all files of an index are there.
bool is_whole_index(const fs::path& index) {
  const auto json = formats::read_json(index.string());
  const auto files = json.find("weight_map");
  if (files == json.end() || !files->is_object()) return true;
  return std::ranges::all_of(*files, [&](const auto& name) {
    std::error_code ignored;
    return !name.is_string() ||
           fs::exists(index.parent_path() / name.template get<std::string>(), ignored);
  });
}

/// Whether a snapshot has the weights of a model or an adapter: huggingface_hub also keeps single
/// files there.
bool is_whole(const fs::path& snapshot) {
  if (models::is_adapter_folder(snapshot.string())) return true;
  const std::string encoder = text::encoder_folder(snapshot.string());
  if (!formats::has_weights(encoder)) return false;
  const fs::path weights = formats::weights_file(encoder);
  std::error_code ignored;
  return fs::exists(weights, ignored) &&
         (weights.extension() != ".json" || is_whole_index(weights));
}

bool is_model_name(const hub::ModelName& name) {
  return hub::is_repository(name.repository) && hub::is_revision(name.revision);
}

}  // namespace

std::string find_model(const std::string& name) {
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) {
    const bool is_adapter = fs::exists(fs::path(name) / models::kAdapterConfigFile, ignored) &&
                            !formats::has_weights(name);
    require(!is_adapter, {Remedy::adapter}, "'{}': expected a model folder, found an adapter",
            name);
    return name;
  }
  require(!fs::exists(name, ignored), "expected a model folder, found the file '{}'", name);
  const hub::ModelName parts = hub::model_name(name);
  require(hub::is_repository(parts.repository), "no model folder '{}'", name);
  require(hub::is_revision(parts.revision), "no model folder '{}', and {} is no revision", name,
          formats::quote(parts.revision));
  const fs::path snapshot = snapshot_of(parts);
  if (!snapshot.empty()) return snapshot.string();
  fail(
      "no model folder '{}', and no such model in the Hub cache at '{}'; to fetch it: longformer "
      "pull {}{}",
      name, hub::cache_folder().string(), name,
      hub::is_offline() ? ", without HF_HUB_OFFLINE" : "");
}

std::string find_adapter(const std::string& name) {
  std::error_code ignored;
  const hub::ModelName parts = hub::model_name(name);
  const bool may_be_one = hub::has_owner(parts.repository) && is_model_name(parts);
  if (fs::exists(name, ignored) || !may_be_one) return name;
  const fs::path snapshot = snapshot_of(parts);
  return snapshot.empty() ? name : snapshot.string();
}

bool is_to_be_fetched(const std::string& name) {
  std::error_code ignored;
  const hub::ModelName parts = hub::model_name(name);
  if (!hub::has_owner(parts.repository) || !is_model_name(parts) || hub::is_offline()) return false;
  // A name in a folder that is here was meant as a path.
  const fs::path owner = fs::path(name).parent_path();
  if (fs::exists(name, ignored) || fs::is_directory(owner, ignored)) return false;
  const fs::path snapshot = snapshot_of(parts);
  return snapshot.empty() || !is_whole(snapshot);
}

std::string fetched_model(const std::string& name, const PullOptions& options) {
  if (!is_to_be_fetched(name)) return find_model(name);
  try {
    return pull_model(name, options).folder;
  } catch (const Error& error) {
    // A tokenizer without weights serves those who want no more.
    if (snapshot_of(hub::model_name(name)).empty()) throw;
    if (options.note) options.note(error.what());
    return find_model(name);
  }
}

}  // namespace longformer
