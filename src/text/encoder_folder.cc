#include "text/encoder_folder.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace longformer::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json parsed(const fs::path& file) {
  std::ifstream stream(file);
  return stream ? Json::parse(stream, nullptr, false) : Json();
}

/// The text of a member; empty for another one or none.
std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool leads_out(const std::string& name) {
  return name == ".." || name.find_first_of("/\\") != std::string::npos;
}

/// The first module of the route of documents, which is the encoder.
std::string encoder_of_router(const fs::path& folder) {
  const Json config = parsed(folder / "router_config.json");
  if (!config.is_object() || !config.contains("structure")) return {};
  const Json& structure = config["structure"];
  if (!structure.is_object() || !structure.contains("document")) return {};
  const Json& route = structure["document"];
  return route.is_array() && !route.empty() && route[0].is_string() ? route[0].get<std::string>()
                                                                    : std::string();
}

}  // namespace

std::string encoder_folder(const std::string& folder) {
  const Json modules = parsed(fs::path(folder) / "modules.json");
  if (!modules.is_array() || modules.empty() || !modules[0].is_object()) return folder;
  std::string name = text_in(modules[0], "path");
  if (leads_out(name)) return folder;
  fs::path inner = fs::path(folder) / name;
  if (text_in(modules[0], "type").ends_with(".Router")) {
    name = encoder_of_router(inner);
    if (leads_out(name)) return folder;
    inner /= name;
  }
  if (name.empty() || name == ".") return folder;
  // A StaticEmbedding has a tokenizer and no config.json.
  const bool has_one = fs::exists(inner / "config.json") || fs::exists(inner / "tokenizer.json");
  return has_one ? inner.string() : folder;
}

}  // namespace longformer::text
