#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "longformer/checkpoint.h"
#include "models/adapter.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;
using formats::quote;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A path with a leading ~ replaced by the home folder.
fs::path expanded(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return from_environment("HOME") + path.substr(1);
}

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto cache = from_environment(name); !cache.empty()) return expanded(cache);
  }
  if (const auto home = from_environment("HF_HOME"); !home.empty()) return expanded(home) / "hub";
  const std::string cache = from_environment("XDG_CACHE_HOME");
  return expanded(cache.empty() ? "~/.cache" : cache) / "huggingface/hub";
}

/// A name of the Hub: "org/name" or, for the oldest models, "name".
struct HubName {
  std::string repository;
  std::string revision;
};

bool is_part(std::string_view part) {
  const auto good = [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !part.empty() && part.front() != '.' && part.front() != '-' && part.back() != '.' &&
         part.back() != '-' && part.find("..") == std::string_view::npos &&
         std::all_of(part.begin(), part.end(), good);
}

bool is_hub_name(const HubName& name) {
  const std::size_t slash = name.repository.find('/');
  const std::string_view repository = name.repository;
  if (slash == std::string::npos) return is_part(repository);
  return is_part(repository.substr(0, slash)) && is_part(repository.substr(slash + 1));
}

/// Branches may have slashes, but lead nowhere else.
bool is_revision(const fs::path& revision) {
  return !revision.empty() && revision.is_relative() &&
         std::none_of(revision.begin(), revision.end(),
                      [](const fs::path& part) { return part == ".." || part == "."; });
}

HubName parsed(const std::string& name) {
  const std::size_t at = name.find('@');
  if (at == std::string::npos) return {name, "main"};
  return {name.substr(0, at), name.substr(at + 1)};
}

/// The folder of a snapshot with a configuration, or nothing.
fs::path snapshot_of(const HubName& name) {
  std::string folder = "models--" + name.repository;
  if (const auto slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  const fs::path repository = hub_cache() / folder;
  std::string commit = name.revision;
  std::error_code ignored;
  const fs::path reference = repository / "refs" / name.revision;
  if (fs::is_regular_file(reference, ignored)) {
    commit = formats::read_file(reference.string());
    commit.erase(std::min(commit.find_first_of(" \r\n"), commit.size()));
  }
  if (!is_revision(commit)) return {};
  const fs::path snapshot = repository / "snapshots" / commit;
  return fs::exists(snapshot / "config.json", ignored) ? snapshot : fs::path();
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
  const HubName hub = parsed(name);
  require(is_hub_name(hub), "no model folder '{}'", name);
  require(is_revision(hub.revision), "no model folder '{}', and {} is no revision", name,
          quote(hub.revision));
  const fs::path snapshot = snapshot_of(hub);
  if (!snapshot.empty()) return snapshot.string();
  fail(
      "no model folder '{}', and no such model in the Hub cache at '{}'; to fetch it: hf download "
      "{}{}",
      name, hub_cache().string(), hub.repository,
      hub.revision == "main" ? "" : " --revision " + hub.revision);
}

}  // namespace longformer
