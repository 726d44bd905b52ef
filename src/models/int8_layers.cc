#include "models/int8_layers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "core/option_fields.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

/// The number of its layer in "encoder.layer.3.output.dense"; empty for a name of no stack.
std::string_view layer_number(std::string_view name) {
  constexpr std::array<std::string_view, 4> kStacks = {"encoder.layer.", "encoder.blocks.",
                                                       "decoder.layers.", "layers."};
  for (const std::string_view stack : kStacks) {
    if (!name.starts_with(stack)) continue;
    const std::string_view rest = name.substr(stack.size());
    const std::string_view number = rest.substr(0, rest.find('.'));
    if (is_number(number)) return number;
  }
  return {};
}

}  // namespace

Int8Layers::Int8Layers(std::vector<std::string> skipped)
    : skipped_(std::move(skipped)), used_(skipped_.size()) {
  for (const std::string& one : skipped_) {
    require(!one.empty(), OptionName("int8_skip"),
            "expected numbers or names of layers, found \"\"");
  }
}

bool Int8Layers::has(const std::string& name, std::string_view stored_name) const {
  const std::string_view number = layer_number(name);
  bool is_skipped = number.empty();
  for (std::size_t i = 0; i < skipped_.size(); ++i) {
    const std::string& one = skipped_[i];
    const bool is_named =
        is_number(one) ? number == one
                       : name.find(one) != name.npos || stored_name.find(one) != stored_name.npos;
    if (!is_named || number.empty()) continue;
    used_[i] = true;
    is_skipped = true;
  }
  if (!is_skipped) found_.insert(name);
  return !is_skipped;
}

void Int8Layers::check_skipped() const {
  for (std::size_t i = 0; i < skipped_.size(); ++i) {
    require(used_[i], OptionName("int8_skip"),
            "expected numbers of layers, or parts of names of dense layers such as output.dense, "
            "found {}, which is none",
            formats::quote(skipped_[i]));
  }
}

Json int8_config(std::span<const std::string> ignored) {
  const auto numbers = [](const char* strategy, bool is_activation) {
    return Json{{"num_bits", 8},
                {"type", "int"},
                {"symmetric", !is_activation},
                {"strategy", strategy},
                {"dynamic", is_activation},
                {"group_size", nullptr},
                {"observer_kwargs", Json::object()}};
  };
  const Json group = {{"targets", {"Linear"}},
                      {"weights", numbers("channel", false)},
                      {"input_activations", numbers("token", true)},
                      {"output_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "int-quantized"},
          {"quantization_status", "compressed"},
          {"kv_cache_scheme", nullptr},
          {"ignore", Json(std::vector<std::string>(ignored.begin(), ignored.end()))},
          {"config_groups", {{"group_0", group}}}};
}

void check_quantization(const formats::ConfigReader& config) {
  if (!config.has(kQuantizationKey)) return;
  const Json& object = config.at(kQuantizationKey);
  const formats::ConfigReader reader(object, config.name() + ": " + kQuantizationKey);
  const std::string method = reader.string("quant_method", "");
  const std::string format = reader.string("format", "");
  require(method == "compressed-tensors" && format == "int-quantized",
          "{}: {}: expected quant_method \"compressed-tensors\" of format \"int-quantized\", found "
          "{} of {}",
          config.name(), kQuantizationKey, formats::quote(method), formats::quote(format));
  // The tensors are checked when they are read.
  for (const auto& [name, group] : reader.at("config_groups").items()) {
    const formats::ConfigReader entry(group, reader.name() + ": " + name);
    const formats::ConfigReader weights(entry.at("weights"), entry.name() + ": weights");
    const std::int64_t bits = weights.integer("num_bits", 8, 1, 64);
    const std::string strategy = weights.string("strategy", "channel");
    require(bits == 8 && weights.boolean("symmetric", true) && strategy == "channel",
            "{}: expected symmetric weights of 8 bits with a scale for each channel, found {} bits "
            "by {}",
            weights.name(), bits, strategy);
  }
}

}  // namespace longformer::models
