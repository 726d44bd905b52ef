// Rotary positions in config.json (docs/spec/modern-encoders.md#rotary).
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "formats/json.h"
#include "ops/rotary.h"

namespace longformer::models {

/// How angles change for texts that are longer than those of the training.
enum class RotaryScaling { none, linear, dynamic, yarn, ntk };

struct RotaryConfig {
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;
  /// Positions of the training.
  Index trained_positions = 0;
  /// YaRN (arXiv 2309.00071): turns within the trained positions between which frequencies change
  /// from as they are to divided by the factor, and what cosines and sines are multiplied with.
  double beta_fast = 32, beta_slow = 1, attention_factor = 1;
  bool truncates = true;
  /// Cosines and sines are multiplied with it too: the root of what scores are multiplied with.
  double score_root = 1;
  /// Pairs are neighbours (kernels::RotatedRows).
  bool pairs_neighbours = false;

  bool operator==(const RotaryConfig&) const = default;
};

/// Reads an object of rope_parameters, or of rope_scaling. `otherwise` has theta and the positions
/// where the object names none. Throws Error for types that are not computed, and for heads of
/// which only a part turns. Adds a line about keys that nothing reads to `unused`.
RotaryConfig read_rotary(const formats::ConfigReader& object, const RotaryConfig& otherwise,
                         std::string& unused);

/// Throws Error unless whole heads turn.
void require_whole_heads(const formats::ConfigReader& config);

/// The name of a scaling in config.json, such as "default" or "yarn".
std::string_view name_of(RotaryScaling scaling);

/// attention_factor of YaRN where the file has none: 0.1·ln(factor) + 1.
double usual_attention_factor(double factor);

/// Radians per position of each pair of a head, for a text of so many tokens.
std::vector<float> rotary_frequencies(const RotaryConfig& config, Index head_size, Index tokens);

/// Makes the angles of passes; any thread.
class Rotary {
 public:
  Rotary(const RotaryConfig& config, Index head_size) : config_(config), head_size_(head_size) {}

  /// `starts` has the first row of each document, and the number of rows at the end; `positions`
  /// has one number for each row. Every document has the angles that it has alone.
  std::shared_ptr<const ops::Rotation> of(std::span<const Index> starts,
                                          std::span<const std::int32_t> positions) const;

 private:
  /// Factor of cosines and sines.
  double scale() const { return config_.attention_factor * config_.score_root; }
  /// At least so many rows of the table of texts whose frequencies do not depend on their length.
  Tensor common_rows(Index count) const;

  RotaryConfig config_;
  Index head_size_;
  mutable std::mutex mutex_;
  mutable Tensor rows_;
};

}  // namespace longformer::models
