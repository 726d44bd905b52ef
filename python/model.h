// A loaded model as Python has it: what all tasks share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "loaded.h"
#include "longformer/model.h"
#include "longformer/text.h"
#include "ranks.h"

namespace longformer {

using MaybeFloats = std::optional<FloatArray>;
/// One layer: [heads, n, columns], and [heads, n, x] of the x global tokens.
using LayerAttention = std::tuple<FloatArray, FloatArray>;
/// last_hidden_state, pooler_output, hidden_states, logits, start_logits, end_logits, attentions.
using Result = std::tuple<FloatArray, MaybeFloats, std::vector<FloatArray>, MaybeFloats,
                          MaybeFloats, MaybeFloats, std::vector<LayerAttention>>;

class PythonModel {
 public:
  /// `ranks` is an object of Python, or None.
  PythonModel(const std::string& name, const LoadOptions& options, nb::object ranks);

  const ModelInfo& info() const { return loaded_.object().info(); }
  const Model& model() const { return loaded_.object(); }
  /// Folder of the model.
  const std::string& folder() const { return folder_; }
  const std::string& adapter() const { return adapter_; }
  /// Tokenizer of the folder, or of the adapter.
  Tokenizer tokenizer() const { return Tokenizer::load(tokenizer_folder(folder_, adapter_)); }

  std::vector<Result> forward(const std::vector<Document>& documents, const EdgeLists& edges,
                              bool hidden_states, bool attentions);
  std::vector<std::int32_t> default_global_attention_mask(const Integers& ids) const;
  FloatArray masked_lm_logits(const Document& document);

 private:
  MaybeFloats logits_of(std::vector<float> values, std::size_t rows) const;

  std::string folder_, adapter_;
  std::unique_ptr<PythonRanks> ranks_;
  Loaded<Model> loaded_;
};

/// A task whose object shares the weights of a model.
template <typename Task>
nb::class_<Loaded<Task>> bind_task(nb::module_& module, const char* name) {
  nb::class_<Loaded<Task>> bound(module, name);
  bound.def(
      "__init__",
      [](Loaded<Task>* self, const PythonModel& model) {
        new (self) Loaded<Task>([&model](const typename Loaded<Task>::Note&) {
          return Task(model.model(), model.tokenizer());
        });
      },
      nb::arg("model"), nb::keep_alive<1, 2>());
  return bound;
}

}  // namespace longformer
