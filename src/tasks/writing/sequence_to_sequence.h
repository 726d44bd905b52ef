// Writing a text about a document: summaries, answers (docs/spec/led-and-generation.md,
// docs/spec/training.md#c5).
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/frame/task.h"
#include "models/decoder.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

const Task& sequence_to_sequence();

/// A decoder behind an encoder. It says nothing of a document alone: there are no logits without a
/// text.
class DecoderHead final : public Head {
 public:
  /// Throws Error when a tensor is missing or of another shape than the configuration says.
  DecoderHead(const models::EncoderConfig& config, const models::Weights& weights, DType dtype)
      : config_(*config.decoder),
        padding_(static_cast<std::int32_t>(config.pad_token_id)),
        decoder_(config, weights, dtype) {}

  const models::Decoder& decoder() const { return decoder_; }

  bool per_token() const override { return true; }
  bool has_logits() const override { return false; }
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override;

  /// The labels of a document are its text: behind the start token and each of them, but for the
  /// last one, the decoder shall say the next.
  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const override;
  /// The labels that count: a step is the mean over all tokens of its micro-batches.
  double weight(const Targets& targets) const override;

 private:
  /// Input of the decoder for which the labels are the output: the first token
  /// (DecoderConfig::first_token), then all of them but the last; padding in place of those that do
  /// not count.
  models::Batch shifted(const Targets& targets) const;

  models::DecoderConfig config_;
  std::int32_t padding_;
  models::Decoder decoder_;
};

/// Another head behind a decoder that reads the document itself, shifted by its first token: what
/// LED, BART, BigBird-Pegasus and mBART make of questions (docs/spec/led-and-generation.md#b5). A
/// document has at most as many tokens as a text.
class DecodedHead final : public Head {
 public:
  /// Throws Error as DecoderHead.
  DecodedHead(const models::EncoderConfig& config, const models::Weights& weights, DType dtype,
              std::unique_ptr<Head> head)
      : config_(*config.decoder),
        padding_(static_cast<std::int32_t>(config.pad_token_id)),
        decoder_(config, weights, dtype, false),
        head_(std::move(head)) {}

  bool per_token() const override { return head_->per_token(); }
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override {
    return head_->logits(context, {decoded(context, states), states.pooled, states.batch});
  }
  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const override {
    return head_->loss(context, {decoded(context, states), states.pooled, states.batch}, targets,
                       options);
  }

 private:
  Tensor decoded(const ops::Context& context, const EncoderStates& states) const;

  models::DecoderConfig config_;
  std::int32_t padding_;
  models::Decoder decoder_;
  std::unique_ptr<Head> head_;
};

}  // namespace longformer::tasks
