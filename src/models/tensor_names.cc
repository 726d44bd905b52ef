#include "models/tensor_names.h"

#include <iterator>

namespace longformer::models {
namespace {

using Renames = std::span<const TensorNames::Rename>;

/// Replaces the first occurrence, if there is one.
void replace_part(std::string& name, std::string_view part, std::string_view by) {
  const auto place = name.find(part);
  if (place != std::string::npos) name.replace(place, part.size(), by);
}

void replace_ending(std::string& name, std::string_view ending, std::string_view by) {
  if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), by);
}

std::string read_by(Renames renames, std::string name) {
  for (const auto& rename : renames) {
    if (rename.is_for(name)) replace_part(name, rename.file, rename.model);
  }
  replace_ending(name, "LayerNorm.gamma", "LayerNorm.weight");
  replace_ending(name, "LayerNorm.beta", "LayerNorm.bias");
  return name;
}

std::string written_by(Renames renames, std::string name) {
  for (const auto& rename : renames) {
    if (rename.is_for(name)) replace_part(name, rename.model, rename.file);
  }
  return name;
}

std::string layer_by(Renames renames, const std::string& layer) {
  std::string name = written_by(renames, layer + ".");
  name.pop_back();
  return name;
}

std::string without_prefix(std::string name, std::span<const std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (!name.starts_with(prefix)) continue;
    name.erase(0, prefix.size());
    break;
  }
  return name;
}

}  // namespace

std::string TensorNames::model_name(std::string name) const {
  return read_by(renames, without_prefix(std::move(name), prefixes));
}

std::string TensorNames::file_name(std::string name) const {
  return written_by(renames, std::move(name));
}

std::string TensorNames::file_layer(const std::string& layer) const {
  return layer_by(renames, layer);
}

std::string TensorNames::model_name_of_module(const std::string& name) const {
  std::string found = model_name(name);
  // Both kinds of names share endings, but not the beginnings of names of layers.
  const bool is_of_file = found.starts_with("encoder.") || found.starts_with("embeddings");
  if (module_renames.empty() || is_of_file) return found;
  return read_by(module_renames, without_prefix(name, prefixes));
}

std::string TensorNames::module_name(std::string name) const {
  return written_by(module_renames.empty() ? renames : module_renames, std::move(name));
}

std::string TensorNames::module_layer(const std::string& layer) const {
  return layer_by(module_renames.empty() ? renames : module_renames, layer);
}

std::vector<std::string> TensorNames::modules_of(const std::string& layer) const {
  for (const Packed& one : packed) {
    if (!layer.ends_with(one.layer)) continue;
    const std::string beginning = layer.substr(0, layer.size() - one.layer.size());
    std::vector<std::string> modules;
    for (const std::string_view module : one.modules) {
      modules.push_back(beginning + std::string(module));
    }
    return modules;
  }
  return {layer};
}

TensorNames::Place TensorNames::place_of(const std::string& module) const {
  for (const Packed& one : packed) {
    Index index = 0;
    for (const std::string_view ending : one.modules) {
      if (module.ends_with(ending)) {
        const std::string beginning = module.substr(0, module.size() - ending.size());
        return {.layer = beginning + std::string(one.layer),
                .index = index,
                .count = std::ssize(one.modules)};
      }
      ++index;
    }
  }
  return {.layer = module};
}

}  // namespace longformer::models
