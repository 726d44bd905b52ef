#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "longformer/language_model.h"
#include "longformer/report.h"

namespace longformer {
namespace {

std::vector<JsonLine> shares_json(const std::vector<AttentionShares>& layers) {
  std::vector<JsonLine> lines;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    JsonLine& line = lines.emplace_back().add("layer", static_cast<std::int64_t>(layer));
    const auto add = [&line](const char* name, const std::array<double, 6>& ages) {
      line.add(name, std::vector<float>(ages.begin(), ages.end()));
    };
    add("compressed", layers[layer].compressed);
    add("memory", layers[layer].memory);
    add("segment", layers[layer].segment);
  }
  return lines;
}

}  // namespace

std::string to_json(const LanguageModelScore& score) {
  JsonLine metrics;
  metrics.add("bpc", score.bpc).add("loss", score.loss);
  if (score.perplexity) metrics.add("perplexity", *score.perplexity);
  if (score.word_perplexity) metrics.add("word_perplexity", *score.word_perplexity);
  if (score.compression_loss) metrics.add("compression_loss", *score.compression_loss);
  JsonLine json;
  json.add("task", "character-lm").add_json("metrics", metrics.object());
  if (!score.attention_shares.empty()) {
    json.add_objects("attention_shares", shares_json(score.attention_shares));
  }
  return json.add("characters", score.characters).add("seconds", score.seconds).object();
}

}  // namespace longformer
