// Models, their heads and gradients.
#include "model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fetched.h"
#include "longformer/analysis.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

/// Labels, values, starts, ends, candidates of one document.
using Target = std::tuple<std::vector<std::int32_t>, std::vector<float>, std::vector<std::int64_t>,
                          std::vector<std::int64_t>, std::vector<std::int64_t>>;
using Gradients = std::vector<std::tuple<std::string, FloatArray>>;

/// None for values that are not there.
MaybeFloats vector_of(std::vector<float> values) {
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

std::vector<DocumentInput> inputs_of(const std::vector<Document>& documents,
                                     const EdgeLists& edges) {
  std::vector<DocumentInput> inputs;
  for (const Document& document : documents) inputs.push_back(input_of(document));
  for (std::size_t i = 0; i < edges.size(); ++i) inputs.at(i).edges = span_of(edges[i]);
  return inputs;
}

std::tuple<double, Gradients> loss_and_gradients(Loaded<GradientModel>& model,
                                                 const std::vector<Document>& documents,
                                                 const EdgeLists& edges,
                                                 const std::vector<Target>& targets,
                                                 const std::vector<std::int64_t>& choices) {
  const std::vector<DocumentInput> inputs = inputs_of(documents, edges);
  std::vector<DocumentTarget> wanted;
  for (const Target& target : targets) {
    wanted.push_back(
        std::apply([](const auto&... fields) { return DocumentTarget{fields...}; }, target));
  }
  LossGradients result = model.call(
      [&](const GradientModel& one) { return one.loss_and_gradients(inputs, wanted, choices); });
  Gradients gradients;
  for (NamedGradient& gradient : result.gradients) {
    const std::vector<std::size_t> shape(gradient.shape.begin(), gradient.shape.end());
    gradients.emplace_back(std::move(gradient.name), array_of(std::move(gradient.values), shape));
  }
  return {result.loss, std::move(gradients)};
}

LoadOptions with_adapter(LoadOptions options, const std::string& adapter, const Ranks* ranks) {
  options.adapter = adapter;
  options.ranks = ranks;
  return options;
}

}  // namespace

PythonModel::PythonModel(const std::string& name, const LoadOptions& options, nb::object ranks)
    : folder_(model_folder(name)),
      adapter_(without_gil([&] { return fetch_adapter(options.adapter); })),
      ranks_(ranks.is_none() ? nullptr : std::make_unique<PythonRanks>(std::move(ranks))),
      loaded_(folder_, with_adapter(options, adapter_, ranks_.get())) {}

std::vector<Result> PythonModel::forward(const std::vector<Document>& documents,
                                         const EdgeLists& edges, bool hidden_states,
                                         bool attentions) {
  const std::vector<DocumentInput> inputs = inputs_of(documents, edges);
  std::vector<std::vector<CollectedLayer>> collected(documents.size());
  ForwardOptions options{.hidden_states = hidden_states};
  if (attentions) {
    for (auto& layers : collected) layers.resize(static_cast<std::size_t>(info().layers));
    options.attention.callback = [&collected](const HeadAttention& head) {
      auto& layers = collected[static_cast<std::size_t>(head.document)];
      layers[static_cast<std::size_t>(head.layer)].add(head);
    };
  }
  std::vector<DocumentOutput> outputs =
      loaded_.call([&](const Model& model) { return model.forward(inputs, options); });
  std::vector<Result> results;
  const auto width = static_cast<std::size_t>(info().hidden_size);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    DocumentOutput& output = outputs[i];
    const std::size_t rows = inputs[i].ids.size();
    std::vector<FloatArray> states;
    for (auto& state : output.hidden_states) {
      const std::size_t columns = state.size() / std::max<std::size_t>(rows, 1);
      states.push_back(array_of(std::move(state), {rows, columns}));
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

std::vector<std::int32_t> PythonModel::default_global_attention_mask(const Integers& ids) const {
  return model().default_global_attention_mask(span_of(ids));
}

/// Per token or per document, as the head has them.
MaybeFloats PythonModel::logits_of(std::vector<float> values, std::size_t rows) const {
  if (info().head == "candidate-scoring") return array_of(std::move(values), {rows, 1});
  if (info().head != "token-classification") return vector_of(std::move(values));
  return array_of(std::move(values), {rows, info().labels.size()});
}

FloatArray PythonModel::masked_lm_logits(const Document& document) {
  const DocumentInput input = input_of(document);
  std::vector<float> logits =
      loaded_.call([&](const Model& model) { return model.masked_lm_logits(input); });
  return array_of(std::move(logits),
                  {input.ids.size(), static_cast<std::size_t>(info().vocabulary_size)});
}

void bind_model(nb::module_& module) {
  nb::class_<PythonModel>(module, "Model")
      .def(
          "__init__",
          [](PythonModel* self, const Path& folder, const Options& options, nb::object ranks) {
            new (self) PythonModel(folder.string(), load_options(options), std::move(ranks));
          },
          "folder"_a, "options"_a, "ranks"_a = nb::none())
      .def("forward", &PythonModel::forward, "documents"_a, "edges"_a, "hidden_states"_a,
           "attentions"_a)
      .def("masked_lm_logits", &PythonModel::masked_lm_logits, "document"_a)
      .def("default_global_attention_mask", &PythonModel::default_global_attention_mask, "ids"_a)
      .def_prop_ro("folder", [](const PythonModel& self) { return path_text(self.folder()); })
      .def_prop_ro("tokenizer_folder",
                   [](const PythonModel& self) {
                     return path_text(tokenizer_folder(self.folder(), self.adapter()));
                   })
      .def_prop_ro("model_type", [](const PythonModel& self) { return self.info().model_type; })
      .def_prop_ro("bytes_sent", [](const PythonModel& self) { return self.model().bytes_sent(); })
      .def_prop_ro("layers", [](const PythonModel& self) { return self.info().layers; })
      .def_prop_ro("windows", [](const PythonModel& self) { return self.info().windows; })
      .def_prop_ro("hidden_size", [](const PythonModel& self) { return self.info().hidden_size; })
      .def_prop_ro("vocabulary_size",
                   [](const PythonModel& self) { return self.info().vocabulary_size; })
      .def_prop_ro("max_tokens", [](const PythonModel& self) { return self.info().max_tokens; })
      .def_prop_ro("head", [](const PythonModel& self) { return self.info().head; })
      .def_prop_ro("labels", [](const PythonModel& self) { return self.info().labels; })
      .def_prop_ro("problem_type", [](const PythonModel& self) { return self.info().problem_type; })
      .def_prop_ro("has_masked_lm_head",
                   [](const PythonModel& self) { return self.info().has_masked_lm_head; });
  nb::class_<Loaded<GradientModel>>(module, "GradientModel")
      .def(
          "__init__",
          [](Loaded<GradientModel>* self, const Path& folder, const Options& options) {
            new (self) Loaded<GradientModel>(folder.string(), load_options(options));
          },
          "folder"_a, "options"_a)
      .def("loss_and_gradients", &loss_and_gradients, "documents"_a, "edges"_a, "targets"_a,
           "choices"_a);
}

}  // namespace longformer
