#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "longformer/analysis.h"

namespace longformer {
namespace {

/// Sum of the squares of all differences.
double squared_difference(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

/// Sums over texts of one layer.
struct LayerSums {
  double difference = 0, alone = 0, first = 0, cosine = 0;

  void add(std::span<const float> a, std::span<const float> b, std::int64_t width) {
    difference += squared_difference(a, b);
    std::vector<double> mean_a(static_cast<std::size_t>(width)), mean_b(mean_a);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      first += x * x;
      mean_a[i % mean_a.size()] += x;
      mean_b[i % mean_b.size()] += y;
    }
    double product = 0, length_a = 0, length_b = 0;
    for (std::size_t c = 0; c < mean_a.size(); ++c) {
      product += mean_a[c] * mean_b[c];
      length_a += mean_a[c] * mean_a[c];
      length_b += mean_b[c] * mean_b[c];
    }
    cosine += product / std::sqrt(std::max(length_a * length_b, 1e-300));
  }
};

void check(const ModelInfo& a, const ModelInfo& b) {
  const auto same = [](const char* what, std::int64_t x, std::int64_t y) {
    require(x == y, "comparison: expected models of as many {}, found {} and {}", what, x, y);
  };
  same("layers", a.layers, b.layers);
  same("numbers in a hidden state", a.hidden_size, b.hidden_size);
  same("tokens in the vocabulary", a.vocabulary_size, b.vocabulary_size);
}

}  // namespace

ModelComparison compare_models(const Model& first, const Model& second, const Tokenizer& tokenizer,
                               std::span<const std::string> texts, std::int64_t max_length,
                               const std::function<void(std::int64_t done)>& progress) {
  const ModelInfo &a = first.info(), &b = second.info();
  check(a, b);
  require(!texts.empty(), "comparison: expected texts, found none");
  const std::int64_t most = std::min(a.max_tokens, b.max_tokens);
  require(max_length >= 0 && max_length <= most, OptionName("max_length", "max length"),
          "expected at most {}, which both models read, found {}", most, max_length);
  std::vector<LayerSums> sums(static_cast<std::size_t>(a.layers + 1));
  ModelComparison comparison = {.layers = {}, .texts = std::ssize(texts)};
  for (const std::string& text : texts) {
    const Encoding encoding =
        tokenizer.encode(text, {.max_length = max_length > 0 ? max_length : most});
    DocumentInput document = {};
    document.ids = encoding.ids;
    document.token_type_ids = encoding.type_ids;
    ForwardOptions options = {.head = false, .last_hidden_state = false, .hidden_states = true};
    const auto left = first.forward({&document, 1}, options)[0].hidden_states;
    const auto right = second.forward({&document, 1}, options)[0].hidden_states;
    options.layer_inputs = std::span(left).first(left.size() - 1);
    const auto alone = second.forward({&document, 1}, options)[0].hidden_states;
    for (std::size_t layer = 0; layer < sums.size(); ++layer) {
      sums[layer].add(left[layer], right[layer], a.hidden_size);
      sums[layer].alone += squared_difference(left[layer], alone[layer]);
    }
    comparison.tokens += std::ssize(encoding.ids);
    if (progress) progress(comparison.tokens);
  }
  for (const LayerSums& layer : sums) {
    require(std::isfinite(layer.difference),
            "comparison: expected finite hidden states from both models, found others");
    comparison.layers.push_back({std::sqrt(layer.difference / layer.first),
                                 std::sqrt(layer.alone / layer.first),
                                 layer.cosine / static_cast<double>(comparison.texts)});
  }
  return comparison;
}

}  // namespace longformer
