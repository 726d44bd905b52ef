#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "engine/frame/table.h"
#include "engine/run/model_implementation.h"
#include "longformer/analysis.h"
#include "models/adapter.h"

namespace longformer {
namespace {

NamedGradient gradient_of(const std::string& name, const Shape& shape, const Tensor* parameter) {
  NamedGradient gradient = {.name = name, .shape = shape, .values = {}};
  const bool reached =
      parameter != nullptr && wants_gradient(*parameter) && !parameter->gradient()->sum.empty();
  if (reached) {
    gradient.values = parameter->gradient()->sum.to_floats();
  } else {
    gradient.values.resize(static_cast<std::size_t>(element_count(shape)), 0.0f);
  }
  return gradient;
}

}  // namespace

GradientModel::GradientModel(std::shared_ptr<const Model::Implementation> implementation)
    : implementation_(std::move(implementation)) {}

GradientModel GradientModel::load(const std::string& folder, const LoadOptions& options) {
  require(options.adapter.empty(),
          "{}: expected a model without an adapter for gradients, found {}", folder,
          options.adapter);
  compute_dtype(options.dtype);  // gradients go through no other
  auto config = models::read_config(models::config_file(folder, {}));
  auto weights = models::Weights::trained(models::Weights::open(folder, config.family->names), {});
  const engine::Task* task = engine::task_for(config, weights, options.task);
  auto implementation =
      std::make_shared<Model::Implementation>(std::move(config), std::move(weights), options, task);
  require(implementation->task != nullptr,
          "{}: expected a folder with a head, found an encoder alone", folder);
  return GradientModel(std::move(implementation));
}

LossGradients GradientModel::loss_and_gradients(std::span<const DocumentInput> documents,
                                                std::span<const DocumentTarget> targets,
                                                std::span<const std::int64_t> choices) const {
  const Model::Implementation& model = *implementation_;
  const models::Batch batch = model.batch(documents, model.task);
  const auto turn = model.turn();
  Tape tape;
  ops::Context context = model.context();
  context.tape = &tape;
  const ops::LossSum loss =
      model.loss(context, batch, {.documents = targets, .questions = choices}, {});
  tape.backward();
  LossGradients result;
  if (loss.weight > 0) result.loss = loss.sum / loss.weight;
  const auto named = model.weights.parameters();
  std::map<std::string, Tensor> parameters(named.begin(), named.end());
  for (const auto& [alias, name] : model.weights.aliases()) {
    parameters.emplace(alias, parameters.at(name));
  }
  for (const std::string& name : model.weights.names()) {
    if (model.weights.is_buffer(name)) continue;
    const auto found = parameters.find(name);
    result.gradients.push_back(gradient_of(model.weights.stored_name(name),
                                           model.weights.shape(name),
                                           found == parameters.end() ? nullptr : &found->second));
  }
  std::sort(result.gradients.begin(), result.gradients.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& [name, value] : parameters) {
    if (wants_gradient(value)) value.gradient()->take();
  }
  return result;
}

}  // namespace longformer
