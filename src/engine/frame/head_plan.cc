#include "engine/frame/head_plan.h"

#include "core/error.h"
#include "engine/frame/table.h"
#include "formats/json.h"
#include "models/encoder.h"

namespace longformer::engine {
namespace {

/// The layer of the first token must compute what that of Longformer does.
void require_same(const HeadParts& from, const HeadParts& to, const std::string& path) {
  constexpr const char* kInstead =
      "convert the model that this one was fine-tuned from, then fine-tune the result";
  require(
      from.block.empty(),
      "{}: expected answers of one layer, as Longformer's, found a feed-forward block before it "
      "({})",
      path, kInstead);
  if (from.layer == nullptr) return;
  const auto found = from.recipe.activation.value_or(from.layer->activation);
  require(found == to.layer->activation,
          "{}: expected a classifier with {}, as Longformer's, found one with {} ({})", path,
          models::name_of(to.layer->activation), models::name_of(found), kInstead);
}

}  // namespace

models::HeadPlan plan_head(const models::EncoderConfig& source, const models::Weights& weights) {
  const Task* task = task_of(source, weights);
  if (task == nullptr) {
    // A head may stand in a file that calls itself an encoder.
    models::EncoderConfig unnamed = source;
    unnamed.architecture.clear();
    task = task_of(unnamed, weights);
  }
  require(task != nullptr || !weights.has("classifier.weight"),
          "{}: expected architectures of a head that Longformer has, with a tensor "
          "\"classifier.weight\", found {}",
          weights.path(), formats::quote(source.architecture));
  if (task == nullptr) return {};
  models::HeadPlan plan = {.class_ending = std::string(task->names().class_ending),
                           .has_head = true};
  models::EncoderConfig target = source;
  target.family = &models::family_of("longformer", "");
  const auto from = task->parts(source), to = task->parts(target);
  for (const std::string& name : task->kept_layers()) {
    plan.layers.push_back({.from = name, .to = name, .has_any_shape = true});
  }
  plan.is_masked_lm = !from && plan.layers.empty();
  if (!from) return plan;
  require(from->layer != nullptr || to->layer == nullptr,
          "{}: expected a classifier of first tokens, as Longformer's, found one of last tokens",
          weights.path());
  plan.keeps_pooler = to->reads_pooler();
  require_same(*from, *to, weights.path());
  if (to->has_own_layer()) {
    const std::string own(from->layer->name);
    plan.layers.push_back({own.empty() ? models::kPooler : own, std::string(to->layer->name)});
  }
  plan.layers.push_back({from->classifier, to->classifier, from->has_bias});
  return plan;
}

}  // namespace longformer::engine
