#include "training/parameters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/safetensors.h"
#include "kernels/optimizer_steps.h"

namespace longformer::training {

namespace {

/// Whether "norm", with a number or none behind it, is a part of a name, or the end of a part whose
/// words are joined by underscores.
bool has_norm_part(std::string_view name) {
  constexpr std::string_view kNorm = "norm";
  for (auto at = name.find(kNorm); at != std::string_view::npos; at = name.find(kNorm, at + 1)) {
    if (at > 0 && name[at - 1] != '.' && name[at - 1] != '_') continue;
    const auto end = name.find_first_not_of("0123456789", at + kNorm.size());
    if (end == std::string_view::npos || name[end] == '.') return true;
  }
  return false;
}

}  // namespace

bool decays_by_name(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const auto has = [&lower](const char* word) { return lower.find(word) != std::string::npos; };
  return !has("bias") && !has("layernorm") && !has("rmsnorm") && !has_norm_part(lower);
}

Parameter& ParameterSet::add(const std::string& name, Tensor value) {
  if (!wants_gradient(value)) value.set_gradient(std::make_shared<Gradient>());
  return add(Parameter{.name = name, .value = std::move(value), .decays = decays_by_name(name)});
}

Parameter& ParameterSet::add(Parameter parameter) {
  require(parameter.value.dtype() == DType::f32, "parameter {}: expected fp32, found {}",
          parameter.name, name_of(parameter.value.dtype()));
  require(places_.emplace(parameter.name, items_.size()).second,
          "parameter {}: expected one of this name, found two", parameter.name);
  items_.push_back(std::move(parameter));
  return items_.back();
}

Parameter& ParameterSet::at(const std::string& name) {
  const auto place = places_.find(name);
  require(place != places_.end(),
          "parameter {}: expected one of the model, found none of this name", name);
  return items_[place->second];
}

Index ParameterSet::trained_elements() const {
  Index count = 0;
  for (const Parameter& parameter : items_) {
    if (parameter.is_trained()) count += parameter.trained_value().size();
  }
  return count;
}

Index ParameterSet::frozen_elements() const {
  Index count = 0;
  for (const Parameter& parameter : items_) count += parameter.value.size();
  return count - trained_elements();
}

void ParameterSet::write(const std::string& path) const {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Parameter& parameter : items_) tensors.emplace_back(parameter.name, parameter.value);
  formats::write_safetensors(path, tensors);
}

void ParameterSet::read(const std::string& path) {
  const auto file = formats::SafetensorsFile::open(path);
  for (Parameter& parameter : items_) {
    const auto stored = file.tensors().find(parameter.name);
    require(stored != file.tensors().end(), "{}: expected a tensor {}, found none", path,
            parameter.name);
    const Tensor& source = stored->second;
    require(source.dtype() == DType::f32 && source.shape() == parameter.value.shape(),
            "{}: tensor {}: expected fp32 {}, found {} {}", path, parameter.name,
            to_string(parameter.value.shape()), name_of(source.dtype()), to_string(source.shape()));
  }
  for (Parameter& parameter : items_) {
    kernels::assign(parameter.value, file.tensors().at(parameter.name));
    if (parameter.is_trained()) ++parameter.value.gradient()->version;
  }
}

}  // namespace longformer::training
