// What a public Model holds; shared by the parts of the API that run it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "api/runner.h"
#include "longformer/model.h"
#include "models/batch.h"
#include "models/config.h"
#include "models/encoder.h"
#include "models/head_loss.h"
#include "models/heads.h"
#include "models/masked_lm.h"
#include "models/registry.h"
#include "models/weights.h"
#include "ops/context.h"

namespace longformer {

struct Model::Implementation {
  Implementation(models::EncoderConfig model_config, models::Weights stored,
                 const LoadOptions& options);

  static Model model_of(std::shared_ptr<const Implementation> implementation) {
    return Model(std::move(implementation));
  }

  /// Checks the documents against the model and lays them behind each other. Documents without a
  /// global attention mask get the default of the head `globals_of`. Throws Error.
  models::Batch batch(std::span<const DocumentInput> documents,
                      models::HeadKind globals_of = models::HeadKind::none) const;

  /// The loss of the folder's head, and with a tape in the context its gradients. Needs a head.
  /// The caller must hold turn().
  ops::LossSum loss(const ops::Context& context, const models::Batch& batch,
                    const models::Targets& targets, const models::HeadLossOptions& options) const;

  /// The masked-LM head, made on first use; the caller must hold turn().
  const models::MaskedLmHead& masked_lm_head() const;

  /// One computation at a time; see Runner.
  Turn turn() const { return runner.turn(); }
  ops::Context context() const { return runner.context(); }

  models::EncoderConfig config;
  models::Weights weights;
  DType dtype;
  int threads;
  std::function<void(const std::string&)> note;
  models::Encoder encoder;
  models::HeadKind head;
  /// Heads of every kind but the masked LM.
  std::optional<models::TaskHead> task_head;
  ModelInfo info;
  mutable Runner runner;
  /// Made on first use: its decoder is as large as the word embeddings.
  mutable std::optional<models::MaskedLmHead> masked_lm;
};

}  // namespace longformer
