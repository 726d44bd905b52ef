// Vectors of texts as sentence-transformers trains them: the pooled states of an encoder, and what
// is learned of those of a whole batch. There are no layers of its own.
#pragma once

#include "engine/frame/head.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

class VectorHead final : public VectorLossHead {
 public:
  bool per_token() const override { return false; }
  bool has_logits() const override { return false; }
  /// Throws Error: vectors need to be told which tokens they are made of.
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override;

  Tensor vectors(const ops::Context& context, const EncoderStates& states,
                 const Targets& targets) const override;
  /// A distillation, if there is one, is added.
  ops::LossSum loss_of(const ops::Context& context, const Tensor& vectors, const Targets& targets,
                       const HeadLossOptions& options) const override;
};

}  // namespace longformer::tasks
