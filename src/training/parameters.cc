#include "training/parameters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <regex>
#include <utility>

#include "core/error.h"
#include "formats/safetensors.h"
#include "ops/optimizer_steps.h"

namespace longformer::training {

bool decays_by_name(const std::string& name) {
  static const std::regex kUndecayed("bias|layernorm|rmsnorm|(^|[._])norm[0-9]*([.]|$)",
                                     std::regex::icase);
  return !std::regex_search(name, kUndecayed);
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
    ops::assign(parameter.value, file.tensors().at(parameter.name));
    if (parameter.is_trained()) ++parameter.value.gradient()->version;
  }
}

}  // namespace longformer::training
