// The head for questions over several paragraphs: an answer as a span, yes or no, and what
// paragraphs and sentences are evidence (Longformer paper, appendix D, HotpotQA).
//
// n tokens of all rows of a question, D the width of the encoder.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/frame/head.h"
#include "tasks/engine_names.h"
#include "tasks/multi_hop/multi_hop_reader.h"

namespace longformer::tasks {

/// The names of the layers of the head.
std::vector<std::string> multi_hop_layers();

/// out_proj(dropout(GELU(dense(x)))).
struct EvidenceScorer {
  ops::Linear dense, out_proj;
  /// The place of its dropout; see ops::Context.
  std::uint64_t place;

  /// [rows, 1] fp32
  Tensor operator()(const ops::Context& context, const Tensor& x) const;
};

/// Logits of the head for a question.
struct MultiHopLogits {
  /// [n]
  std::vector<float> starts, ends;
  /// Those of a span, "yes" and "no": the mean over the rows.
  std::array<float, 3> types = {};
  /// One for each of the places.
  std::vector<float> paragraphs, sentences;
};

class MultiHopHead final : public Head {
 public:
  MultiHopHead(const models::EncoderConfig& config, const models::LayerSource& source);

  bool per_token() const override { return true; }
  /// Those of the starts and ends of answers alone, [n, 2]: what else the head says is of places
  /// that only score() is told.
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override;
  /// Mean over the questions of λ·[the OR loss of the span over all rows, half of starts and half
  /// of ends; cross-entropy of the type; mean binary cross-entropy of paragraphs; of sentences].
  /// What a question has not got is left out.
  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const override;

  /// Logits of the head for a question whose rows have the states `hidden` [n, D]. Throws Error
  /// unless all logits are finite.
  MultiHopLogits score(const ops::Context& context, const Tensor& hidden,
                       const MultiHopPlaces& places) const;

 private:
  ops::Linear span_, type_;
  EvidenceScorer paragraph_, sentence_;
};

}  // namespace longformer::tasks
