#include "models/heads.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/masked_lm.h"
#include "ops/dropout.h"

namespace longformer::models {
namespace {

constexpr std::array<std::pair<HeadKind, std::string_view>, 7> kNames = {{
    {HeadKind::none, ""},
    {HeadKind::masked_lm, "masked-lm"},
    {HeadKind::sequence_classification, "sequence-classification"},
    {HeadKind::token_classification, "token-classification"},
    {HeadKind::question_answering, "question-answering"},
    {HeadKind::multiple_choice, "multiple-choice"},
    {HeadKind::candidate_scoring, "candidate-scoring"},
}};

/// How the class names of `transformers` end.
constexpr std::array<std::pair<HeadKind, std::string_view>, 5> kClasses = {{
    {HeadKind::sequence_classification, "ForSequenceClassification"},
    {HeadKind::token_classification, "ForTokenClassification"},
    {HeadKind::question_answering, "ForQuestionAnswering"},
    {HeadKind::multiple_choice, "ForMultipleChoice"},
    {HeadKind::candidate_scoring, "ForCandidateScoring"},
}};

/// BERT classifies the pooler's output; Longformer and RoBERTa have a layer of their own for it.
bool has_own_dense(const EncoderConfig& config, HeadKind kind) {
  return kind == HeadKind::sequence_classification && config.model_type != ModelType::bert;
}

/// The layer that makes the logits.
std::string classifier_name(const EncoderConfig& config, HeadKind kind) {
  if (kind == HeadKind::question_answering) return "qa_outputs";
  if (kind == HeadKind::candidate_scoring) return "candidate_scorer";
  return has_own_dense(config, kind) ? "classifier.out_proj" : "classifier";
}

bool is_per_token(HeadKind kind) {
  return kind == HeadKind::token_classification || kind == HeadKind::question_answering ||
         kind == HeadKind::candidate_scoring;
}

Index outputs_of(const EncoderConfig& config, HeadKind kind) {
  if (kind == HeadKind::question_answering) return 2;
  if (kind == HeadKind::multiple_choice || kind == HeadKind::candidate_scoring) return 1;
  return static_cast<Index>(config.labels.size());
}

/// All have a bias but that of candidates, whose softmax would not see one.
bool has_bias(HeadKind kind) { return kind != HeadKind::candidate_scoring; }

/// Logits of documents come from fp32 rows, logits of tokens from the hidden state as it is.
ops::Linear classifier(const EncoderConfig& config, HeadKind kind, const Checkpoint& weights,
                       DType dtype) {
  require(outputs_of(config, kind) > 0, "{} head: expected at least one label, found none",
          name_of(kind));
  const std::string name = classifier_name(config, kind);
  const Shape shape = {outputs_of(config, kind), config.hidden_size};
  const DType operands = is_per_token(kind) ? dtype : DType::f32;
  if (has_bias(kind)) return linear(weights, name, shape, operands);
  const std::array matrix = {weights.get(name + ".weight", shape)};
  return {matrix, {}, {.dtype = operands, .trainable = weights.is_trainable()}};
}

}  // namespace

std::string_view name_of(HeadKind kind) { return kNames[static_cast<std::size_t>(kind)].second; }

std::string_view class_ending(HeadKind kind) {
  if (kind == HeadKind::masked_lm) return "ForMaskedLM";
  const auto found = std::find_if(kClasses.begin(), kClasses.end(),
                                  [kind](const auto& entry) { return entry.first == kind; });
  return found == kClasses.end() ? "Model" : found->second;
}

HeadKind head_kind(const EncoderConfig& config, const Checkpoint& weights) {
  for (const auto& [kind, ending] : kClasses) {
    const bool named = config.architecture.ends_with(ending);
    // A classifier alone may be that of three heads; with a name it is not asked what it looks
    // like.
    const bool only_one = kind == HeadKind::question_answering ||
                          kind == HeadKind::candidate_scoring || has_own_dense(config, kind);
    const bool chosen = config.architecture.empty() ? only_one : named;
    if (chosen && weights.has(classifier_name(config, kind) + ".weight")) return kind;
  }
  return MaskedLmHead::present(config, weights) ? HeadKind::masked_lm : HeadKind::none;
}

std::vector<NamedShape> head_tensors(const EncoderConfig& config, HeadKind kind) {
  if (kind == HeadKind::none || kind == HeadKind::masked_lm) return {};
  const Index width = config.hidden_size;
  const std::string name = classifier_name(config, kind);
  const Index outputs = outputs_of(config, kind);
  std::vector<NamedShape> tensors = {{name + ".weight", {outputs, width}}};
  if (has_bias(kind)) tensors.push_back({name + ".bias", {outputs}});
  if (has_own_dense(config, kind)) {
    tensors.push_back({"classifier.dense.weight", {width, width}});
    tensors.push_back({"classifier.dense.bias", {width}});
  }
  return tensors;
}

bool has_labels(HeadKind kind) {
  return kind == HeadKind::sequence_classification || kind == HeadKind::token_classification;
}

bool needs_pooler(const EncoderConfig& config, HeadKind kind) {
  return kind == HeadKind::multiple_choice ||
         (kind == HeadKind::sequence_classification && !has_own_dense(config, kind));
}

std::vector<Index> default_globals(const EncoderConfig& config, HeadKind kind,
                                   std::span<const std::int32_t> ids, const std::string& name) {
  const bool question = kind == HeadKind::question_answering || kind == HeadKind::candidate_scoring;
  if (config.windows.empty() || ids.empty()) return {};
  if (kind == HeadKind::sequence_classification) return {0};
  if (!question && kind != HeadKind::multiple_choice) return {};
  const auto sep = static_cast<std::int32_t>(config.sep_token_id);
  const auto found = std::find(ids.begin(), ids.end(), sep);
  require(found != ids.end(),
          "{}: expected a separator (token id {}) behind the question, found none (give a global "
          "attention mask to do without)",
          name, sep);
  const auto first = static_cast<Index>(found - ids.begin());
  Index begin = 0, end = first;
  if (!question) {
    const bool doubled = found + 1 != ids.end() && found[1] == sep;
    begin = first + (doubled || std::count(found, ids.end(), sep) == 3 ? 2 : 1);
    end = static_cast<Index>(ids.size());
  }
  std::vector<Index> positions;
  for (Index i = begin; i < end; ++i) positions.push_back(i);
  return positions;
}

TaskHead::TaskHead(const EncoderConfig& config, HeadKind kind, const Checkpoint& weights,
                   DType dtype)
    : per_token_(is_per_token(kind)),
      // Question answering and candidate scoring have no dropout.
      dropout_(kind == HeadKind::question_answering || kind == HeadKind::candidate_scoring
                   ? 0
                   : config.classifier_dropout),
      classifier_(classifier(config, kind, weights, dtype)) {
  const Index width = config.hidden_size;
  require(!needs_pooler(config, kind) || weights.has("pooler.dense.weight"),
          "{} head: expected a tensor pooler.dense.weight, found none", name_of(kind));
  if (has_own_dense(config, kind)) {
    dense_ = linear(weights, "classifier.dense", {width, width}, dtype, Activation::tanh);
  }
}

Tensor TaskHead::forward(const ops::Context& context, const Tensor& hidden, const Tensor& pooled,
                         const Batch& batch) const {
  const Dropout first = context.dropout(dropout_, kHeadPlace);
  if (per_token_ || !dense_) {
    const Tensor& x = per_token_ ? hidden : pooled;
    return ops::linear(context, ops::dropout(context, x, first), classifier_, DType::f32);
  }
  const std::span<const Index> starts(batch.starts.data(), batch.starts.size() - 1);
  const Tensor rows = ops::dropout(context, ops::select_rows(context, hidden, starts), first);
  const Tensor dense = ops::linear(context, rows, *dense_, DType::f32);
  const Dropout second = context.dropout(dropout_, kHeadDensePlace);
  return ops::linear(context, ops::dropout(context, dense, second), classifier_, DType::f32);
}

}  // namespace longformer::models
