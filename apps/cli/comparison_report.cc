#include "comparison_report.h"

#include <fmt/format.h>

#include "longformer/analysis.h"
#include "longformer/error.h"
#include "progress.h"

namespace longformer::cli {
namespace {

/// The layer that changes most by itself; 0 without layers.
std::size_t worst_layer(const ModelComparison& found) {
  std::size_t worst = 0;
  for (std::size_t layer = 1; layer < found.layers.size(); ++layer) {
    if (worst == 0 || found.layers[layer].alone > found.layers[worst].alone) worst = layer;
  }
  return worst;
}

}  // namespace

std::string ComparisonReport::text(Inputs& inputs, const ModelFlags& flags,
                                   Messages& messages) const {
  std::vector<std::string> texts;
  Document document;
  while (inputs.next(document)) {
    if (!document.error.empty()) throw Error(document.label() + ": " + document.error);
    texts.push_back(std::move(document.text));
  }
  const Tokenizer tokenizer = Tokenizer::load(first);
  check_room(tokenizer, max_length);
  LoadOptions without_adapter = flags.load_options(messages);
  without_adapter.adapter.clear();
  if (flags.dtype == "int8") {
    // The first model shows the change by whole numbers.
    without_adapter.dtype = "fp32";
    without_adapter.int8_skip.clear();
  }
  const Model before = Model::load(first, without_adapter);
  const Model after = Model::load(second, flags.load_options(messages));
  const auto count = static_cast<std::int64_t>(texts.size());
  ProgressLine progress(messages, count, 0);
  std::int64_t done = 0;
  const ModelComparison found =
      compare_models(before, after, tokenizer, texts, max_length, [&](std::int64_t tokens) {
        if (const ProgressCallback report = progress.unit(1, 0)) report({++done, count, tokens, 0});
      });
  if (flags.json) {
    std::vector<JsonLine> layers;
    for (std::size_t layer = 0; layer < found.layers.size(); ++layer) {
      layers.emplace_back()
          .add("layer", static_cast<std::int64_t>(layer))
          .add("relative_error", found.layers[layer].relative_error)
          .add("alone", found.layers[layer].alone)
          .add("cosine", found.layers[layer].cosine);
    }
    JsonLine json;
    json.add("first", first).add("second", second);
    json.add("texts", found.texts).add("tokens", found.tokens);
    json.add_objects("layers", layers);
    json.add("worst_layer", static_cast<std::int64_t>(worst_layer(found)));
    return json.line();
  }
  std::string table =
      fmt::format("{:<12} {:>14} {:>14} {:>8}   {}, {}\n", "layer", "relative error", "by itself",
                  "cosine", counted(found.texts, "text"), counted(found.tokens, "token"));
  for (std::size_t layer = 0; layer < found.layers.size(); ++layer) {
    table += fmt::format(
        "{:<12} {:>14.4f} {:>14.4f} {:>8.4f}\n", layer == 0 ? "embeddings" : std::to_string(layer),
        found.layers[layer].relative_error, found.layers[layer].alone, found.layers[layer].cosine);
  }
  if (const std::size_t worst = worst_layer(found); worst > 0) {
    table += fmt::format("worst by itself: layer {}, {:.4f}\n", worst, found.layers[worst].alone);
  }
  return table;
}

}  // namespace longformer::cli
