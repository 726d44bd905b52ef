// Vectors of texts as sentence-transformers trains them: the pooled states of an encoder, and what
// is learned of those of a whole batch. There are no layers of its own.
#pragma once

#include "tasks/head.h"

namespace longformer::tasks {

class VectorHead final : public Head {
 public:
  bool per_token() const override { return false; }
  bool has_logits() const override { return false; }
  /// Throws Error: vectors need to be told which tokens they are made of.
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override;

  /// The vectors of all rows in their order, [m, D] fp32. Throws Error for tokens beyond a row.
  Tensor vectors(const ops::Context& context, const EncoderStates& states,
                 const Targets& targets) const;
  /// The mean loss of such vectors of all documents of a batch. Where there is a distillation it is
  /// added. Throws Error for targets that do not fit.
  ops::LossSum loss_of(const ops::Context& context, const Tensor& vectors, const Targets& targets,
                       const HeadLossOptions& options) const;

  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const override {
    return loss_of(context, vectors(context, states, targets), targets, options);
  }
};

}  // namespace longformer::tasks
