#include "longformer/hub.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "hub/cache.h"
#include "hub/files.h"
#include "hub/names.h"
#include "hub/settings.h"
#include "longformer/checkpoint.h"
#include "models/adapter.h"
#include "text/encoder_folder.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;

hub::Repository repository_of(const hub::ModelName& name) {
  return hub::Repository(hub::cache_folder(), name.repository);
}

fs::path snapshot_of(const hub::ModelName& name) {
  return repository_of(name).snapshot_of(name.revision);
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

/// Whether all files of an index are there.
bool is_whole_index(const fs::path& index) {
  const auto json = formats::read_json(index.string());
  const auto files = json.find("weight_map");
  if (files == json.end() || !files->is_object()) return true;
  return std::ranges::all_of(*files, [&](const auto& name) {
    return !name.is_string() || is_there(index.parent_path() / name.template get<std::string>());
  });
}

bool has_whole_weights(const std::string& folder) {
  if (!formats::has_weights(folder)) return false;
  const fs::path weights = formats::weights_file(folder);
  return is_there(weights) && (weights.extension() != ".json" || is_whole_index(weights));
}

/// Whether the files of a module of modules.json are there; what is malformed is the loader's.
bool has_module(const fs::path& snapshot, const nlohmann::ordered_json& module) {
  const std::string path = hub::text_in(module, "path"), type = hub::text_in(module, "type");
  if (path.empty() || type.ends_with(".Normalize")) return true;
  std::error_code absent;
  const bool is_empty = fs::is_empty(snapshot / path, absent);
  const bool has_weights = !type.ends_with(".Dense") || formats::has_weights(snapshot / path);
  return !absent && !is_empty && has_weights;
}

bool has_modules(const fs::path& snapshot) {
  try {
    const auto modules = formats::read_json((snapshot / "modules.json").string());
    return !modules.is_array() || std::ranges::all_of(modules, [&](const auto& module) {
      return has_module(snapshot, module);
    });
  } catch (const Error&) {
    return true;
  }
}

/// Whether a snapshot has the weights of a model or an adapter, its modules and its tokenizer, or
/// the cache knows that it has none of these: other programs keep there the files that they read.
bool is_whole(const hub::Repository& repository, const fs::path& snapshot) {
  if (models::is_adapter_folder(snapshot.string())) return true;
  const std::string commit = snapshot.filename().string();
  const std::string encoder = text::encoder_folder(snapshot.string());
  const bool knows_modules = is_there(snapshot / "modules.json")
                                 ? has_modules(snapshot)
                                 : repository.is_known_absent(commit, "modules.json");
  const bool has_tokenizer = is_there(fs::path(encoder) / "tokenizer.json") ||
                             std::ranges::any_of(hub::kVocabularies, [&](std::string_view name) {
                               return is_there(fs::path(encoder) / name);
                             });
  return has_whole_weights(encoder) && knows_modules &&
         (has_tokenizer || repository.is_known_absent(commit, "tokenizer.json"));
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
  const hub::Repository repository = repository_of(parts);
  const fs::path snapshot = repository.snapshot_of(parts.revision);
  return snapshot.empty() || !is_whole(repository, snapshot);
}

std::string fetched_model(const std::string& name, const PullOptions& options) {
  if (!is_to_be_fetched(name)) return find_model(name);
  // A part of a snapshot is completed, not replaced by a newer one.
  const hub::ModelName parts = hub::model_name(name);
  const fs::path part = snapshot_of(parts);
  const std::string commit = part.filename().string();
  try {
    return pull_model(part.empty() ? name : parts.repository + "@" + commit, options).folder;
  } catch (const Error& error) {
    // The cache may have all that is wanted: a tokenizer without weights, or a model whose other
    // files nobody knows.
    if (part.empty()) throw;
    if (options.note) options.note(error.what());
    return find_model(name);
  }
}

}  // namespace longformer
