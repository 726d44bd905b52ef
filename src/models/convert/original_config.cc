#include "models/convert/original_config.h"

#include <algorithm>

#include "core/error.h"

namespace longformer::models {
namespace {

using Json = nlohmann::ordered_json;
using formats::ConfigReader;
using formats::quote;
using formats::shown;

/// Its attention_mode, or empty for a RoBERTa with another attention.
std::string mode_of(const ConfigReader& config) { return config.string("attention_mode", ""); }

void check_attention(const ConfigReader& config) {
  const std::string mode = mode_of(config);
  require(mode.empty() || mode == "tvm" || mode == "sliding_chunks",
          "{}: attention_mode: expected tvm or sliding_chunks, found {}: another function",
          config.name(), quote(mode));
  require(!config.boolean("autoregressive", false),
          "{}: autoregressive: expected false, found true: decoders are not supported",
          config.name());
}

bool is_one(const Json& dilation) {
  if (!dilation.is_array()) return dilation == 1;
  return std::all_of(dilation.begin(), dilation.end(), is_one);
}

/// Total windows of one-sided ones, which parse_config then checks.
Json doubled(const Json& windows, const std::string& name) {
  if (windows.is_array()) {
    Json all = Json::array();
    for (const Json& window : windows) all.push_back(doubled(window, name));
    return all;
  }
  constexpr std::int64_t kMost = 1 << 29;
  require(windows.is_number_integer() && windows >= 1 && windows <= kMost,
          "{}: attention_window: expected numbers from 1 to {} for one side, found {}", name, kMost,
          shown(windows));
  return 2 * windows.get<std::int64_t>();
}

}  // namespace

bool is_original_config(const Json& config, const std::string& name) {
  const ConfigReader reader(config, name);
  const std::string type = reader.string("model_type", "roberta");
  return type == "roberta" && reader.has("attention_window");
}

void update_original_windows(Json& config, const std::string& name) {
  const ConfigReader reader(config, name);
  check_attention(reader);
  if (!mode_of(reader).empty()) {
    config["attention_window"] = doubled(config["attention_window"], name);
  }
  for (const char* key : {"attention_mode", "autoregressive"}) config.erase(key);
  // Steps of one are what a model without the key has, and `transformers` knows nothing else.
  if (config.contains("attention_dilation") && is_one(config["attention_dilation"])) {
    config.erase("attention_dilation");
  }
}

void update_original_config(Json& config, const std::string& name) {
  update_original_windows(config, name);
  config["model_type"] = "longformer";
  // The defaults of RoBERTa, which it extends.
  const auto set_default = [&config](const char* key, const Json& value) {
    if (!config.contains(key)) config[key] = value;
  };
  set_default("vocab_size", 50265);
  set_default("pad_token_id", 1);
}

}  // namespace longformer::models
