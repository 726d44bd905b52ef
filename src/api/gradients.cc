#include "longformer/gradients.h"

#include <algorithm>
#include <map>
#include <utility>

#include "api/model_implementation.h"
#include "core/error.h"

namespace longformer {
namespace {

using models::HeadKind;

std::vector<Index> inside(std::span<const std::int64_t> tokens, Index n) {
  std::vector<Index> kept;
  for (const std::int64_t token : tokens) {
    if (token >= 0 && token < n) kept.push_back(token);
  }
  return kept;
}

/// From documents per question to candidates per question, and where each stands in the batch.
void gather_candidates(std::span<const DocumentInput> documents,
                       std::span<const DocumentTarget> targets, models::Targets& all) {
  std::size_t document = 0;
  Index row = 0;
  for (Index& choices : all.choices) {
    const std::size_t end = document + static_cast<std::size_t>(choices);
    require(choices > 0 && end <= documents.size(),
            "loss: expected documents of all questions, found {} documents", documents.size());
    const std::size_t count = targets[document].candidates.size();
    const std::size_t first = all.candidates.size();
    all.candidates.resize(first + count);
    for (; document < end; ++document) {
      const auto n = static_cast<Index>(documents[document].ids.size());
      const auto tokens = inside(targets[document].candidates, n);
      require(tokens.size() == count,
              "loss: document {}: expected {} candidates in its {} tokens, found {}", document,
              count, n, tokens.size());
      for (std::size_t c = 0; c < count; ++c) all.candidates[first + c].push_back(row + tokens[c]);
      row += n;
    }
    choices = static_cast<Index>(count);
  }
}

/// The targets of all documents in the form of the head.
models::Targets targets_of(HeadKind head, std::span<const DocumentInput> documents,
                           std::span<const DocumentTarget> targets,
                           std::span<const std::int64_t> choices) {
  require(targets.size() == documents.size(), "loss: expected targets of {} documents, found {}",
          documents.size(), targets.size());
  models::Targets all;
  all.choices.assign(choices.begin(), choices.end());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const DocumentTarget& target = targets[i];
    const auto n = static_cast<Index>(documents[i].ids.size());
    const bool per_token = head == HeadKind::masked_lm || head == HeadKind::token_classification;
    require(!per_token || static_cast<Index>(target.labels.size()) == n,
            "loss: document {}: expected a label for each of {} tokens, found {}", i, n,
            target.labels.size());
    all.labels.insert(all.labels.end(), target.labels.begin(), target.labels.end());
    all.values.insert(all.values.end(), target.values.begin(), target.values.end());
    all.starts.push_back(inside(target.starts, n));
    all.ends.push_back(inside(target.ends, n));
  }
  if (head == HeadKind::candidate_scoring) gather_candidates(documents, targets, all);
  return all;
}

NamedGradient gradient_of(const std::string& name, const Shape& shape, const Tensor* parameter) {
  NamedGradient gradient = {.name = name, .shape = shape, .values = {}};
  const bool reached = parameter != nullptr && !parameter->gradient()->sum.empty();
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
  auto config = models::read_config(folder + "/config.json");
  auto weights = models::Weights::trained(models::Weights::open(folder, config.family->names), {});
  auto implementation =
      std::make_shared<Model::Implementation>(std::move(config), std::move(weights), options);
  require(implementation->head != HeadKind::none,
          "{}: expected a folder with a head, found an encoder alone", folder);
  return GradientModel(std::move(implementation));
}

LossGradients GradientModel::loss_and_gradients(std::span<const DocumentInput> documents,
                                                std::span<const DocumentTarget> targets,
                                                std::span<const std::int64_t> choices) const {
  const Model::Implementation& model = *implementation_;
  const models::Batch batch = model.batch(documents, model.head);
  const models::Targets wanted = targets_of(model.head, documents, targets, choices);
  const auto turn = model.turn();
  Tape tape;
  ops::Context context = model.context();
  context.tape = &tape;
  const ops::LossSum loss = model.loss(context, batch, wanted, {});
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
  for (const auto& [name, value] : parameters) value.gradient()->take();
  return result;
}

}  // namespace longformer
