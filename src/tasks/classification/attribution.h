// Gradients of a document's logit to its word embeddings, and occlusion of its sentences: what
// explains it (docs/explain.md).
#pragma once

#include <span>
#include <vector>

#include "longformer/explanation.h"
#include "tasks/classification/row_passes.h"

namespace longformer::tasks {

/// A document with the class that is explained. All of it must outlive its use.
struct ExplainedDocument {
  const Model& model;
  const Tokenizer& tokenizer;
  const RowReader& reader;
  const Reading& reading;
  /// Logits of each row of the reading.
  std::span<const std::vector<float>> outputs;
  Index label = 0;
  const ExplainOptions& options;
};

/// Most points of the quadrature.
inline constexpr Index kMostSteps = 4096;

/// Tokens of all passes that the functions below make, as RowPasses reports them; of an explanation
/// by the largest segment at most so many.
Index attribution_tokens(const ExplainedDocument& document);
Index occlusion_tokens(const ExplainedDocument& document, std::span<const TokenRange> sentences);

/// Fills in the values of tokens, and for integrated gradients how complete they are; for occlusion
/// the values of sentences, which are ranges of tokens.
void attribute_tokens(const ExplainedDocument& document, const RowPasses& passes,
                      Explanation& explanation);
void occlude_sentences(const ExplainedDocument& document, const RowPasses& passes,
                       std::span<const TokenRange> sentences, Explanation& explanation);

/// The points and weights of Gauss-Legendre quadrature over 0 … 1.
struct QuadraturePoint {
  double at = 0, weight = 0;
};
std::vector<QuadraturePoint> gauss_legendre(Index points);

/// Throws Error for a baseline or an occlusion that the model cannot have.
void check_possible(const ExplainedDocument& document);

}  // namespace longformer::tasks
