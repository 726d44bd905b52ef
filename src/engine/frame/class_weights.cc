#include "engine/frame/class_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/words.h"
#include "engine/frame/labels.h"
#include "formats/json.h"

namespace longformer::engine {
namespace {

constexpr const char* kOption = "class_weights";
/// Weights beyond these leave nothing of the loss of other classes in single precision.
constexpr double kLeast = 1e-6, kMost = 1e6;

using NamedWeights = std::vector<std::pair<std::string, double>>;

NamedWeights weights_of_object(const std::string& text) {
  nlohmann::ordered_json object;
  try {
    object = formats::parse_json(text, "object");
  } catch (const Error& error) {
    fail(OptionName(kOption), "expected balanced, label=weight,… or a JSON object, found {}",
         error.reason());
  }
  NamedWeights weights;
  for (const auto& [label, weight] : object.items()) {
    require(weight.is_number(), OptionName(kOption), "expected a number for \"{}\", found {}",
            label, formats::shown(weight));
    weights.emplace_back(label, weight.get<double>());
  }
  return weights;
}

NamedWeights weights_of_list(const std::string& text) {
  NamedWeights weights;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t equals = part.rfind('=');
    const auto weight = equals == std::string::npos
                            ? std::nullopt
                            : parsed_number<double>(std::string_view(part).substr(equals + 1));
    require(weight.has_value(), OptionName(kOption),
            "expected balanced, or label=weight between commas, found '{}' (labels with a comma "
            "stand in a JSON object: {{\"a, b\": 2}})",
            part);
    weights.emplace_back(part.substr(0, equals), *weight);
    begin = end + 1;
  }
  return weights;
}

ClassWeights explicit_weights(const NamedWeights& given, const std::vector<std::string>& labels,
                              bool is_multi_label) {
  ClassWeights weights = {.right = std::vector<double>(labels.size(), 1)};
  if (is_multi_label) weights.other = weights.right;
  std::vector<bool> seen(labels.size(), false);
  for (const auto& [label, weight] : given) {
    const auto found = place_of_label(labels, label);
    require(found.has_value(), OptionName(kOption), "expected one of the labels {}, found {}",
            fmt::join(labels, ", "), formats::quote(label));
    const std::size_t place = *found;
    require(!seen[place], OptionName(kOption), "expected each label once, found {} twice",
            formats::quote(label));
    require(weight >= kLeast && weight <= kMost, OptionName(kOption),
            "expected a weight from {:g} to {:g} for {}, found {:g}", kLeast, kMost,
            formats::quote(label), weight);
    seen[place] = true;
    weights.right[place] = weight;
  }
  return weights;
}

ClassWeights balanced_weights(const ClassCounts& counts) {
  const auto total = static_cast<double>(counts.total);
  ClassWeights weights = {.right = std::vector<double>(counts.counts.size(), 1)};
  if (counts.is_multi_label) weights.other = weights.right;
  const auto classes = static_cast<double>(
      counts.counts.size() - static_cast<std::size_t>(std::ranges::count(counts.counts, 0)));
  for (std::size_t i = 0; i < counts.counts.size(); ++i) {
    const auto count = static_cast<double>(counts.counts[i]);
    if (!counts.is_multi_label) {
      if (count > 0) weights.right[i] = total / (classes * count);
    } else if (count > 0 && count < total) {
      weights.right[i] = total / (2 * count);
      weights.other[i] = total / (2 * (total - count));
    }
  }
  return weights;
}

}  // namespace

ClassWeights class_weights(const std::string& text, const std::vector<std::string>& labels,
                           const ClassCounts& counts) {
  if (text.empty()) return {};
  require(
      counts.counts.size() == labels.size() && !labels.empty(), OptionName(kOption),
      "expected a task with classes, classify (not with numbers as labels) or ner, found another");
  if (text == "balanced") return balanced_weights(counts);
  return explicit_weights(text.starts_with('{') ? weights_of_object(text) : weights_of_list(text),
                          labels, counts.is_multi_label);
}

double weight_of(const ClassWeights& weights, std::span<const std::int32_t> labels) {
  double sum = 0;
  for (const std::int32_t label : labels) {
    const bool counts = label >= 0 && static_cast<std::size_t>(label) < weights.right.size();
    if (counts) sum += weights.right[static_cast<std::size_t>(label)];
  }
  return sum;
}

}  // namespace longformer::engine
