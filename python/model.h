// A loaded model as Python sees it.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/hub.h"
#include "longformer/model.h"

namespace longformer {

using MaybeFloats = std::optional<FloatArray>;
/// One layer: [heads, n, columns], and [heads, n, x] of the x global tokens.
using LayerAttention = std::tuple<FloatArray, FloatArray>;
/// last_hidden_state, pooler_output, hidden_states, logits, start_logits, end_logits, attentions.
using Result = std::tuple<FloatArray, MaybeFloats, std::vector<FloatArray>, MaybeFloats,
                          MaybeFloats, MaybeFloats, std::vector<LayerAttention>>;

/// None for values that are not there.
inline MaybeFloats vector_of(std::vector<float> values) {
  const std::size_t size = values.size();
  return size == 0 ? MaybeFloats() : array_of(std::move(values), {size});
}

/// The heads of one layer for one document, behind each other as they come.
struct CollectedLayer {
  std::size_t heads = 0, tokens = 0, columns = 0, globals = 0;
  std::vector<float> local, global;

  void add(const HeadAttention& head) {
    ++heads;
    tokens = static_cast<std::size_t>(head.tokens);
    columns = static_cast<std::size_t>(head.columns);
    globals = head.global_positions.size();
    local.insert(local.end(), head.local.begin(), head.local.end());
    global.insert(global.end(), head.global.begin(), head.global.end());
  }
  LayerAttention arrays() {
    return {array_of(std::move(local), {heads, tokens, columns}),
            array_of(std::move(global), {heads, tokens, globals})};
  }
};

/// A Model takes one call at a time; Python threads take turns here, without the GIL.
class PythonModel {
 public:
  PythonModel(const std::string& folder, std::string dtype, int threads, std::string adapter)
      : model_(load(folder, {.dtype = std::move(dtype),
                             .threads = threads,
                             .adapter = std::move(adapter),
                             .note = notes_.collector()})) {
    Notes::warn(notes_.take());
  }

  const ModelInfo& info() const { return model_.info(); }
  const Model& model() const { return model_; }

  std::vector<Result> forward(const std::vector<Document>& documents, bool hidden_states,
                              bool attentions) {
    std::vector<DocumentInput> inputs;
    for (const Document& document : documents) inputs.push_back(input_of(document));
    std::vector<DocumentOutput> outputs;
    std::vector<std::vector<CollectedLayer>> collected(documents.size());
    ForwardOptions options{.hidden_states = hidden_states};
    if (attentions) {
      for (auto& layers : collected) layers.resize(static_cast<std::size_t>(info().layers));
      options.attention.callback = [&collected](const HeadAttention& head) {
        auto& layers = collected[static_cast<std::size_t>(head.document)];
        layers[static_cast<std::size_t>(head.layer)].add(head);
      };
    }
    {
      nb::gil_scoped_release release;
      std::lock_guard lock(mutex_);
      outputs = model_.forward(inputs, options);
    }
    std::vector<Result> results;
    const auto width = static_cast<std::size_t>(info().hidden_size);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      DocumentOutput& output = outputs[i];
      const std::size_t rows = inputs[i].ids.size();
      std::vector<FloatArray> states;
      for (auto& state : output.hidden_states) {
        states.push_back(array_of(std::move(state), {rows, width}));
      }
      std::vector<LayerAttention> layers;
      for (CollectedLayer& layer : collected[i]) layers.push_back(layer.arrays());
      results.emplace_back(array_of(std::move(output.last_hidden_state), {rows, width}),
                           vector_of(std::move(output.pooler_output)), std::move(states),
                           logits_of(std::move(output.logits), rows),
                           vector_of(std::move(output.start_logits)),
                           vector_of(std::move(output.end_logits)), std::move(layers));
    }
    return results;
  }

  std::vector<std::int32_t> default_global_attention_mask(const Integers& ids) const {
    return model_.default_global_attention_mask(span_of(ids));
  }

  /// Per token or per document, as the head has them.
  MaybeFloats logits_of(std::vector<float> values, std::size_t rows) const {
    if (info().head == "candidate-scoring") return array_of(std::move(values), {rows, 1});
    if (info().head != "token-classification") return vector_of(std::move(values));
    return array_of(std::move(values), {rows, info().labels.size()});
  }

  FloatArray masked_lm_logits(const Document& document) {
    const DocumentInput input = input_of(document);
    std::vector<float> logits;
    std::vector<std::string> notes;
    {
      nb::gil_scoped_release release;
      std::lock_guard lock(mutex_);
      logits = model_.masked_lm_logits(input);
      notes = notes_.take();
    }
    Notes::warn(notes);
    return array_of(std::move(logits),
                    {input.ids.size(), static_cast<std::size_t>(info().vocabulary_size)});
  }

 private:
  static Model load(const std::string& folder, const LoadOptions& options) {
    nb::gil_scoped_release release;
    return Model::load(find_model(folder), options);
  }

  Notes notes_;
  Model model_;
  std::mutex mutex_;
};

}  // namespace longformer
