// The loss of a head over a batch, as `transformers` computes it (spec.md A.6).
#pragma once

#include <cstdint>
#include <vector>

#include "models/batch.h"
#include "models/config.h"
#include "models/heads.h"
#include "models/masked_lm.h"
#include "ops/loss.h"

namespace longformer::models {

/// What a head should have said about a batch. Which of these is used depends on head and problem.
struct Targets {
  /// The class of each document (sequence classification) or of each token (masked LM, token
  /// classification), or the right choice of each question; ops::kIgnored does not count.
  std::vector<std::int32_t> labels;
  /// Regression and multi-label classification: one for each logit.
  std::vector<float> values;
  /// Question answering: the tokens of each document, counted from its first, at which a right
  /// answer starts and ends; none where it does not count.
  std::vector<std::vector<Index>> starts, ends;
  /// How many choices every question has: documents of the batch for multiple choice, elements of
  /// `candidates` for candidate scoring.
  std::vector<Index> choices;
  /// Candidate scoring: the rows of the batch at which each candidate stands, one in every document
  /// of its question, whose logits are added.
  std::vector<std::vector<Index>> candidates;
};

struct HeadLossOptions {
  /// The gradient is that of scale times the mean loss of the batch.
  double scale = 1;
  double label_smoothing = 0;
};

/// The loss is sum / weight; nothing counts: both are 0. hidden is [n, D].
ops::LossSum masked_lm_loss(const ops::Context& context, const MaskedLmHead& head,
                            const Tensor& hidden, const Targets& targets,
                            const HeadLossOptions& options);

/// The problem of a sequence classification: what the configuration says, else regression for one
/// label, multi-label where values are given, else single-label.
enum class Problem { regression, single_label, multi_label };
Problem problem_of(const EncoderConfig& config, const Targets& targets);

/// What TaskHead::forward has said about a batch.
struct TaskLogits {
  const EncoderConfig& config;
  HeadKind kind;
  const Tensor& logits;
  const Batch& batch;
};
ops::LossSum task_loss(const ops::Context& context, const TaskLogits& task, const Targets& targets,
                       const HeadLossOptions& options);

}  // namespace longformer::models
