#include "models/convert/int8.h"

#include "kernels/int8_rows.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/registry.h"

namespace longformer::models {

Int8Layers int8_layers_of(const EncoderConfig& config, const std::vector<std::string>& skipped) {
  Weights recording = Weights::recording();
  recording.use_int8(skipped);
  const Encoder encoder(config, recording, DType::f32);
  if (config.decoder) const Decoder decoder(config, recording, DType::f32);
  recording.int8_layers()->check_skipped();
  return *recording.int8_layers();
}

nlohmann::ordered_json make_int8(const EncoderConfig& config, const Weights& source,
                                 const std::vector<std::string>& skipped,
                                 std::vector<std::pair<std::string, Tensor>>& tensors) {
  constexpr std::string_view kWeight = ".weight";
  const Int8Layers layers = int8_layers_of(config, skipped);
  std::vector<std::pair<std::string, Tensor>> result;
  std::vector<std::string> ignored;
  for (const auto& [name, tensor] : tensors) {
    result.emplace_back(name, tensor);
    if (!name.ends_with(kWeight) || tensor.shape().size() != 2) continue;
    const std::string own = config.family->names.model_name(name);
    const bool was_skipped = source.has_int8() && source.has(own) && !source.is_int8(own);
    if (was_skipped || !layers.found().contains(own.substr(0, own.size() - kWeight.size()))) {
      const bool is_table = name.find("embedding") != std::string::npos;
      if (!is_table) ignored.push_back(name.substr(0, name.size() - kWeight.size()));
      continue;
    }
    const kernels::Int8Matrix matrix = kernels::quantized(tensor);
    result.back().second = matrix.numbers;
    result.emplace_back(name + kScaleEnding, matrix.scales);
  }
  tensors = std::move(result);
  return int8_config(ignored);
}

}  // namespace longformer::models
