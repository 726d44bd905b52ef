// Parts of a public Model; shared by the parts of the API that run it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/collective.h"
#include "core/compute.h"
#include "engine/frame/table.h"
#include "engine/run/runner.h"
#include "longformer/model.h"
#include "models/batch.h"
#include "models/config.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "models/weights.h"
#include "ops/context.h"

namespace longformer {

/// All of `count` layers or heads where none are chosen; else the chosen ones in ascending order.
/// Throws Error for others; `what` is "layer" or "head".
std::vector<Index> chosen_indices(std::span<const std::int64_t> indices, Index count,
                                  const char* what);

struct Model::Implementation {
  /// The head is that of `trained`; null: the one that the weights have.
  Implementation(models::EncoderConfig model_config, models::Weights stored,
                 const LoadOptions& options, const engine::Task* trained = nullptr);

  static Model model_of(std::shared_ptr<const Implementation> implementation) {
    return Model(std::move(implementation));
  }

  /// Checks the documents against the model and lays them behind each other. Documents without a
  /// global attention mask get the default of the task `globals_of`. Throws Error.
  models::Batch batch(std::span<const DocumentInput> documents,
                      const engine::Task* globals_of = nullptr) const;

  /// The logits of the folder's head, and its loss, with a tape in the context also its gradients.
  /// Both need a head, and the caller must hold turn().
  Tensor logits(const ops::Context& context, const models::Batch& batch,
                const Tensor& hidden) const;
  ops::LossSum loss(const ops::Context& context, const models::Batch& batch,
                    const engine::Targets& targets, const engine::HeadLossOptions& options) const;

  /// Throws Error where a layer has an op that the device has not: two tokens go through all.
  void check_ops_of_device() const;

  /// The folder's head, and that of Task::has_logits_on_request, which is made on first use; the
  /// caller must hold turn().
  const engine::Head& task_head() const;
  const engine::Head& requested_head() const;

  /// A computation that runs alone; see Runner.
  Turn turn(Turns::Claim claim = {}) const { return runner.turn(claim); }
  ops::Context context() const { return runner.context(); }

  models::EncoderConfig config;
  /// Name of the way of computing, for users.
  std::string dtype_name;
  std::vector<std::string> int8_skip;
  Compute compute;
  models::Weights weights;
  /// Dtype of activations.
  DType dtype;
  int threads;
  std::function<void(const std::string&)> note;
  std::function<void(const PassReport&)> pass;
  /// Null: this process computes alone.
  std::unique_ptr<const CheckedRanks> ranks;
  models::Encoder encoder;
  /// Null for an encoder alone.
  const engine::Task* task;
  /// Null where logits are computed on request, or for an encoder alone.
  std::unique_ptr<engine::Head> head;
  ModelInfo info;
  mutable Runner runner;
  /// Made on first use: its decoder is as large as the word embeddings.
  mutable std::unique_ptr<engine::Head> requested;
};

}  // namespace longformer
