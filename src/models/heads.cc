#include "models/heads.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/layers.h"
#include "models/masked_lm.h"
#include "models/registry.h"
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

/// The layer of the first token before the classifier; null for heads that read all tokens.
const DocumentLayer* document_layer(const EncoderConfig& config, HeadKind kind) {
  const EncoderTraits& traits = config.traits();
  if (kind == HeadKind::sequence_classification) return &traits.document_layer;
  return kind == HeadKind::multiple_choice ? &traits.choice_layer : nullptr;
}

/// Whether that layer is one of the head, rather than the pooler.
bool has_own_dense(const EncoderConfig& config, HeadKind kind) {
  const DocumentLayer* layer = document_layer(config, kind);
  return layer != nullptr && !layer->name.empty();
}

/// The layer that makes the logits.
std::string classifier_name(const EncoderConfig& config, HeadKind kind) {
  if (kind == HeadKind::question_answering) return "qa_outputs";
  if (kind == HeadKind::candidate_scoring) return "candidate_scorer";
  const bool documents = kind == HeadKind::sequence_classification;
  return std::string(documents ? config.traits().document_classifier : "classifier");
}

double dropout_of(const EncoderConfig& config, HeadKind kind) {
  const HeadDropout& rates = config.head_dropout;
  switch (kind) {
    case HeadKind::sequence_classification:
      return rates.documents;
    case HeadKind::multiple_choice:
      return rates.choices;
    case HeadKind::token_classification:
      return rates.tokens;
    case HeadKind::question_answering:
      return rates.spans;
    default:
      return 0;
  }
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
ops::Linear classifier(const EncoderConfig& config, HeadKind kind, const LayerSource& source) {
  require(outputs_of(config, kind) > 0, "{} head: expected at least one label, found none",
          name_of(kind));
  return linear(
      source, classifier_name(config, kind), {outputs_of(config, kind), config.hidden_size},
      {.has_bias = has_bias(kind), .dtype = is_per_token(kind) ? source.dtype : DType::f32});
}

}  // namespace

std::string_view name_of(HeadKind kind) { return kNames[static_cast<std::size_t>(kind)].second; }

std::string_view class_ending(HeadKind kind) {
  if (kind == HeadKind::masked_lm) return "ForMaskedLM";
  const auto found = std::find_if(kClasses.begin(), kClasses.end(),
                                  [kind](const auto& entry) { return entry.first == kind; });
  return found == kClasses.end() ? "Model" : found->second;
}

HeadKind head_kind(const EncoderConfig& config, const Weights& weights) {
  for (const auto& [kind, ending] : kClasses) {
    const bool named = config.architecture.ends_with(ending);
    // A classifier alone may be that of three heads; with a name it is not asked what it looks
    // like.
    const bool only_one =
        kind == HeadKind::question_answering || kind == HeadKind::candidate_scoring ||
        (has_own_dense(config, kind) &&
         weights.has(std::string(document_layer(config, kind)->name) + ".weight"));
    const bool chosen = config.architecture.empty() ? only_one : named;
    if (chosen && weights.has(classifier_name(config, kind) + ".weight")) return kind;
  }
  return MaskedLmHead::present(config, weights) ? HeadKind::masked_lm : HeadKind::none;
}

std::vector<WeightRecord> head_tensors(const EncoderConfig& config, HeadKind kind) {
  const Weights recording = Weights::recording();
  if (kind == HeadKind::masked_lm) {
    const MaskedLmHead head(config, recording, DType::f32);
  } else if (kind != HeadKind::none) {
    const TaskHead head(config, kind, recording, DType::f32);
  }
  if (needs_pooler(config, kind)) {
    const ops::Linear pooler = linear(layer_source(config, recording, DType::f32), kPooler,
                                      {config.hidden_size, config.hidden_size});
  }
  std::vector<WeightRecord> tensors = recording.recorded();
  std::erase_if(tensors, [](const WeightRecord& tensor) { return is_of_encoder(tensor.name); });
  return tensors;
}

bool has_labels(HeadKind kind) {
  return kind == HeadKind::sequence_classification || kind == HeadKind::token_classification;
}

bool needs_pooler(const EncoderConfig& config, HeadKind kind) {
  return document_layer(config, kind) != nullptr && !has_own_dense(config, kind);
}

std::vector<Index> default_globals(const EncoderConfig& config, HeadKind kind,
                                   std::span<const std::int32_t> ids, const std::string& name) {
  const bool question = kind == HeadKind::question_answering || kind == HeadKind::candidate_scoring;
  if (!config.has_global_attention() || ids.empty()) return {};
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

TaskHead::TaskHead(const EncoderConfig& config, HeadKind kind, const Weights& weights, DType dtype)
    : TaskHead(config, kind, layer_source(config, weights, dtype)) {}

TaskHead::TaskHead(const EncoderConfig& config, HeadKind kind, const LayerSource& source)
    : per_token_(is_per_token(kind)),
      dropout_(dropout_of(config, kind)),
      classifier_(classifier(config, kind, source)) {
  const Index width = config.hidden_size;
  const bool pools = needs_pooler(config, kind) && !source.weights.is_recording();
  require(!pools || source.weights.has(std::string(kPooler) + ".weight"),
          "{} head: expected a tensor {}.weight, found none", name_of(kind), kPooler);
  if (!has_own_dense(config, kind)) return;
  const DocumentLayer& layer = *document_layer(config, kind);
  dense_ =
      linear(source, std::string(layer.name), {width, width}, {.activation = layer.activation});
  drops_input_ = layer.drops_input;
}

Tensor TaskHead::forward(const ops::Context& context, const Tensor& hidden, const Tensor& pooled,
                         const Batch& batch) const {
  const Dropout first = context.dropout(dropout_, kHeadPlace);
  if (per_token_ || !dense_) {
    const Tensor& x = per_token_ ? hidden : pooled;
    return ops::linear(context, ops::dropout(context, x, first), classifier_, DType::f32);
  }
  const std::span<const Index> starts(batch.starts.data(), batch.starts.size() - 1);
  const Tensor rows = ops::dropout(context, ops::select_rows(context, hidden, starts),
                                   drops_input_ ? first : Dropout());
  const Tensor dense = ops::linear(context, rows, *dense_, DType::f32);
  const Dropout second = context.dropout(dropout_, kHeadDensePlace);
  return ops::linear(context, ops::dropout(context, dense, second), classifier_, DType::f32);
}

}  // namespace longformer::models
