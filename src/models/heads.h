// What stands on an encoder for a task: which head a folder has, where it wants global attention,
// and its logits (spec.md A.6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/batch.h"
#include "models/config.h"
#include "models/encoder.h"
#include "models/weights.h"
#include "ops/linear.h"

namespace longformer::models {

enum class HeadKind {
  none,
  masked_lm,
  sequence_classification,
  token_classification,
  question_answering,
  multiple_choice,
  candidate_scoring,
};

/// "", "masked-lm", "sequence-classification", "token-classification", "question-answering",
/// "multiple-choice", "candidate-scoring".
std::string_view name_of(HeadKind kind);

/// How the class names of `transformers` end: "ForMaskedLM", …; "Model" without a head. Candidate
/// scoring, the head of the paper for WikiHop (spec.md C.4), has no class there; its name goes by
/// the same rule.
std::string_view class_ending(HeadKind kind);

/// The head whose tensors the weights have and that architectures[0] names. Without a name the
/// tensors decide, where only one head has such tensors.
HeadKind head_kind(const EncoderConfig& config, const Weights& weights);

/// Tensors of a head beside those of the encoder, with the pooler where the head needs one. With a
/// tied decoder, the masked LM has none for it.
std::vector<WeightRecord> head_tensors(const EncoderConfig& config, HeadKind kind);

/// Whether the head tells classes apart: its logits belong to the labels of the configuration.
bool has_labels(HeadKind kind);

/// Whether the head reads the pooler's output.
bool needs_pooler(const EncoderConfig& config, HeadKind kind);

/// Positions of a document that have global attention unless a mask is given, ascending: the first
/// token for sequence classification; for question answering what stands before the first
/// separator, and for candidate scoring likewise; for multiple choice what stands behind the
/// separators between question and choice.
/// `transformers` insists on three separators and then skips two positions; with any other number
/// a second separator is skipped only where it directly follows. None for other heads and for dense
/// attention. Throws Error that begins with `name` when the head needs a separator and there is
/// none.
std::vector<Index> default_globals(const EncoderConfig& config, HeadKind kind,
                                   std::span<const std::int32_t> ids, const std::string& name);

/// Sequence classification, token classification, question answering, multiple choice and
/// candidate scoring.
class TaskHead {
 public:
  /// Throws Error when a tensor is missing or of another shape than the configuration says.
  TaskHead(const EncoderConfig& config, HeadKind kind, const Weights& weights, DType dtype);

  /// Whether there are logits for every token rather than for every document.
  bool per_token() const { return per_token_; }
  /// Logits of a document or token: the classes; start and end of an answer; one for a choice; one
  /// for the candidate that begins at a token.
  Index outputs() const { return classifier_.out_features(); }

  /// hidden [n, D] of a batch, and the pooler's output [documents, D] where the head needs one
  /// (else empty), to fp32 logits [documents or n, outputs].
  Tensor forward(const ops::Context& context, const Tensor& hidden, const Tensor& pooled,
                 const Batch& batch) const;

 private:
  TaskHead(const EncoderConfig& config, HeadKind kind, const LayerSource& source);

  bool per_token_;
  /// Dropout of what the layers are given while training.
  double dropout_;
  /// The first token's layer where the head does not take the pooler's.
  std::optional<ops::Linear> dense_;
  bool drops_input_ = true;
  ops::Linear classifier_;
};

}  // namespace longformer::models
