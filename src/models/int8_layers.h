// The layers of a model that are multiplied as 8-bit whole numbers, and how folders name them
// (docs/int8.md).
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"

namespace longformer::models {

/// Dense layers of the stacks of encoders and decoders, but for those that are skipped.
class Int8Layers {
 public:
  /// Each is the number of a layer of a stack, or a part of the name of a dense layer.
  explicit Int8Layers(std::vector<std::string> skipped);

  /// Whether a dense layer of these names, as models and as files have it, is of a stack and not
  /// skipped; notes it, or what skips it.
  bool has(const std::string& name, std::string_view stored_name) const;
  /// The names in models of all layers that were asked for and are had.
  const std::set<std::string>& found() const { return found_; }
  /// Throws Error for what has skipped nothing.
  void check_skipped() const;

 private:
  std::vector<std::string> skipped_;
  mutable std::vector<bool> used_;
  mutable std::set<std::string> found_;
};

inline constexpr const char* kQuantizationKey = "quantization_config";

/// Ending of the name of a tensor that has the scales of another, [rows] or [rows, 1].
inline constexpr const char* kScaleEnding = "_scale";

/// quantization_config of config.json for such layers but for the ignored ones, in the form
/// "int-quantized" of compressed-tensors, which `transformers` and vLLM read.
nlohmann::ordered_json int8_config(std::span<const std::string> ignored);

/// Throws Error for a quantization_config of another form.
void check_quantization(const formats::ConfigReader& config);

}  // namespace longformer::models
