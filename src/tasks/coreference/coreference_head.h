// The head for coreference of Kirstain et al. 2021, "Coreference Resolution without Span
// Representations", with a loss of its mention scores (docs/spec/tasks.md#t4).
//
// n tokens of all rows of a document, W words, C spans of words that may be mentions, k of them
// kept for linking, f the width of the layers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/frame/head.h"
#include "engine/frame/task.h"
#include "ops/embedding.h"
#include "ops/spans.h"
#include "tasks/coreference/coreference_config.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// Cost of such a head over a document of so many tokens.
HeadCost coreference_cost(const models::EncoderConfig& config, Index tokens);

/// The names of the layers of the head.
std::vector<std::string> coreference_layers();

/// FC(x) = dropout(LayerNorm(activation(W·x + b))).
struct MentionLayer {
  ops::Linear dense;
  ops::LayerNorm norm;
  double dropout;
  /// The place of its dropout; see ops::Context.
  std::uint64_t place;

  Tensor operator()(const ops::Context& context, const Tensor& x) const;
};

/// Result of the head for a document.
struct CoreferenceResult {
  /// Clusters and mentions in their order.
  std::vector<WordCluster> clusters;
  /// The spans that pruning left, which are linked; of a head with clusters of one, those of them
  /// that it takes for mentions.
  std::vector<WordSpan> kept;
};

class CoreferenceHead final : public Head {
 public:
  /// Throws Error for a configuration without such a head.
  CoreferenceHead(const models::EncoderConfig& config, const models::LayerSource& source);

  bool per_token() const override { return true; }
  bool has_logits() const override { return false; }
  /// Throws Error: what the head says is of spans of words.
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override;
  /// Mean over the documents of L_ant ÷ k + μ·L_men ÷ mentions.
  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const override;

  /// The clusters of a document whose rows have the states `hidden` [n, D]. Throws Error for scores
  /// that are not finite.
  CoreferenceResult resolve(const ops::Context& context, const Tensor& hidden,
                            const CoreferenceTarget& words) const;

  /// Every token is a word, and all spans that are kept are linked.
  void speak(const ops::Context& context, const EncoderStates& states) const override;

 private:
  struct Links;
  struct ScoredSpans {
    const Tensor& scores;
    const std::vector<Index>& numbers;
  };

  Tensor mention_scores(const ops::Context& context, const Tensor& hidden,
                        const CoreferenceTarget& words, ops::RowRange range) const;
  /// How many of so many spans are kept for linking.
  Index most_kept(const CoreferenceTarget& words, Index spans) const;
  Tensor all_scores(const ops::Context& context, const Tensor& hidden,
                    const CoreferenceTarget& words) const;
  std::vector<WordCluster> linked(const ops::Context& context, const Tensor& hidden,
                                  const CoreferenceTarget& words, const ScoredSpans& spans) const;
  Links links(const ops::Context& context, const Tensor& hidden, const CoreferenceTarget& words,
              std::span<const WordSpan> kept) const;
  Links links_in_parts(const ops::Context& context, const Tensor& hidden,
                       const CoreferenceTarget& words, std::span<const WordSpan> kept) const;
  double document_loss(const ops::Context& context, const Tensor& hidden,
                       const CoreferenceTarget& words, double scale) const;

  CoreferenceConfig config_;
  MentionLayer mention_start_, mention_end_, link_start_, link_end_;
  ops::Linear start_score_, end_score_, mention_product_;
  ops::Linear start_to_start_, end_to_end_, start_to_end_, end_to_start_;
};

}  // namespace longformer::tasks
