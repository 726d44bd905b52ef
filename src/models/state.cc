#include "models/state.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/error.h"
#include "formats/json.h"
#include "formats/new_file.h"
#include "formats/safetensors.h"

namespace longformer::models {
namespace {

std::string tensor_name(std::size_t layer, std::size_t index) {
  return fmt::format("layers.{}.{}", layer, index);
}

}  // namespace

State::State(const State& other) : tokens_(other.tokens_) {
  for (const auto& layer : other.layers_) layers_.push_back(layer ? layer->copy() : nullptr);
}

std::int64_t State::bytes() const {
  std::int64_t sum = 0;
  for (const auto& layer : layers_) sum += layer ? layer->bytes() : 0;
  return sum;
}

void State::reorder(std::span<const Index> sources) {
  std::vector<Index> tokens;
  for (const Index source : sources) {
    require(source >= 0 && source < streams(), "state: expected streams from 0 to {}, found {}",
            streams() - 1, source);
    tokens.push_back(this->tokens(source));
  }
  for (const auto& layer : layers_) {
    if (layer) layer->reorder(sources);
  }
  tokens_ = std::move(tokens);
}

void State::add_streams(Index count) {
  tokens_.resize(tokens_.size() + static_cast<std::size_t>(count), 0);
}

void State::advance(std::span<const Index> starts) {
  for (std::size_t s = 0; s < tokens_.size(); ++s) tokens_[s] += starts[s + 1] - starts[s];
}

void State::save(const std::filesystem::path& folder) const {
  std::vector<std::pair<std::string, Tensor>> tensors;
  nlohmann::ordered_json json;
  json["tokens"] = tokens_;
  json["layers"] = nlohmann::ordered_json::array();
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const std::vector<Tensor> parts = layers_[l] ? layers_[l]->saved() : std::vector<Tensor>();
    json["layers"].push_back(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      tensors.emplace_back(tensor_name(l, i), parts[i]);
    }
  }
  formats::write_file((folder / "state.json").string(), json.dump(2) + "\n");
  formats::write_safetensors((folder / "state.safetensors").string(), tensors);
}

void State::restore(const std::filesystem::path& folder) {
  const std::string path = (folder / "state.json").string();
  const auto json = formats::read_json(path);
  const formats::ConfigReader reader(json, path);
  const auto& tokens = reader.at("tokens");
  const auto& layers = reader.at("layers");
  const auto counts = [](const nlohmann::ordered_json& values) {
    return values.is_array() && std::all_of(values.begin(), values.end(), [](const auto& value) {
             return value.is_number_integer() && value >= 0 && value <= Index{1} << 40;
           });
  };
  require(counts(tokens) && tokens.size() == tokens_.size(),
          "{}: tokens: expected numbers of {} streams, found {}", path, tokens_.size(),
          formats::shown(tokens));
  require(counts(layers) && layers.size() == layers_.size(),
          "{}: layers: expected numbers of {} layers, found {}", path, layers_.size(),
          formats::shown(layers));
  const auto file = formats::SafetensorsFile::open((folder / "state.safetensors").string());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (!layers_[l]) continue;
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < layers[l].get<std::size_t>(); ++i) {
      const auto found = file.tensors().find(tensor_name(l, i));
      require(found != file.tensors().end(), "{}: expected a tensor {}, found none",
              (folder / "state.safetensors").string(), tensor_name(l, i));
      parts.push_back(found->second);
    }
    layers_[l]->restore(parts);
  }
  tokens_ = tokens.get<std::vector<Index>>();
}

}  // namespace longformer::models
