#include "text/encoder_folder.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace longformer::text {

std::string encoder_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::ifstream list(fs::path(folder) / "modules.json");
  if (!list) return folder;
  const auto modules = nlohmann::json::parse(list, nullptr, false);
  if (!modules.is_array() || modules.empty() || !modules[0].is_object()) return folder;
  const auto path = modules[0].find("path");
  if (path == modules[0].end() || !path->is_string()) return folder;
  const auto name = path->get<std::string>();
  const bool leads_out = name == ".." || name.find_first_of("/\\") != std::string::npos;
  if (name.empty() || name == "." || leads_out) return folder;
  const fs::path inner = fs::path(folder) / name;
  return fs::exists(inner / "config.json") ? inner.string() : folder;
}

}  // namespace longformer::text
