#include "engine/frame/head.h"

#include <algorithm>

#include "core/error.h"
#include "models/attention/attention.h"
#include "models/encoder.h"
#include "ops/dropout.h"
#include "ops/embedding.h"

namespace longformer::engine {
namespace {

/// Logits of documents come from fp32 rows, logits of tokens from the hidden state as it is.
ops::Linear classifier(const HeadParts& parts, const models::LayerSource& source, Index width,
                       std::string_view name) {
  require(parts.outputs > 0, "{} head: expected at least one label, found none", name);
  return models::linear(
      source, parts.classifier, {parts.outputs, width},
      {.has_bias = parts.has_bias, .dtype = parts.per_token ? source.dtype : DType::f32});
}

/// Width of the rows that the classifier reads, of states of the given one.
Index width_behind(const HeadParts& parts, Index width) {
  return parts.has_own_layer() && parts.layer->halves ? width / 2 : width;
}

/// The mean of the visible rows of each document, [documents, D] fp32.
Tensor mean(const ops::Context& context, const Tensor& rows, const models::Batch& batch) {
  std::vector<Index> visible;
  std::vector<ops::RowRange> ranges;
  for (std::size_t i = 0; i + 1 < batch.starts.size(); ++i) {
    const auto begin = static_cast<Index>(visible.size());
    for (Index row = batch.starts[i]; row < batch.starts[i + 1]; ++row) {
      if (batch.mask.empty() || batch.mask[at(row)] != 0) visible.push_back(row);
    }
    ranges.push_back({begin, static_cast<Index>(visible.size())});
  }
  if (batch.mask.empty()) return ops::mean_rows(context, rows, ranges);
  return ops::mean_rows(context, ops::select_rows(context, rows, visible), ranges);
}

/// The last visible row of each document.
std::vector<Index> last_rows(const models::Batch& batch) {
  std::vector<Index> rows;
  for (std::size_t i = 0; i + 1 < batch.starts.size(); ++i) {
    Index row = batch.starts[i + 1] - 1;
    while (!batch.mask.empty() && batch.mask[at(row)] == 0 && row > batch.starts[i]) --row;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

double labels_that_count(std::span<const std::int32_t> labels) {
  return static_cast<double>(labels.size()) -
         static_cast<double>(std::count(labels.begin(), labels.end(), ops::kIgnored));
}

ops::LossOptions mean_of(double count, const HeadLossOptions& options) {
  return {.scale = count > 0 ? options.scale / count : 0,
          .label_smoothing = options.label_smoothing};
}

ClassifierHead::ClassifierHead(const HeadParts& parts, const models::LayerSource& source,
                               Index width, std::string_view name)
    : per_token_(parts.per_token),
      dropout_(parts.dropout),
      pooling_(parts.recipe.pooling),
      classifier_(classifier(parts, source, width_behind(parts, width), name)) {
  const std::string pooler = std::string(models::kPooler) + ".weight";
  const bool pools = parts.reads_pooler() && !source.weights.is_recording();
  require(!pools || source.weights.has(pooler), "{} head: expected a tensor {}, found none", name,
          source.weights.file_name(pooler));
  if (!parts.block.empty()) {
    block_ = {
        .up = models::linear(source, parts.block + ".intermediate.dense", {parts.block_size, width},
                             {.activation = parts.recipe.activation}),
        .down = models::linear(source, parts.block + ".output.dense", {width, parts.block_size})};
    norm_ = models::layer_norm(source, parts.block + ".output.LayerNorm", width);
    return;
  }
  if (!parts.has_own_layer()) return;
  const models::DocumentLayer& layer = *parts.layer;
  const Index inner = width_behind(parts, width);
  dense_ = models::linear(source, std::string(layer.name), {inner, width},
                          {.activation = parts.recipe.activation.value_or(layer.activation),
                           .has_bias = parts.recipe.has_bias});
  if (!layer.norm.empty()) norm_ = models::layer_norm(source, std::string(layer.norm), inner);
  drops_input_ = layer.drops_input;
}

Tensor ClassifierHead::read(const ops::Context& context, const EncoderStates& states) const {
  const models::Batch& batch = states.batch;
  const std::span<const Index> starts(batch.starts.data(), batch.starts.size() - 1);
  if (per_token_ || pooling_ == models::DocumentPooling::late) return states.hidden;
  if (pooling_ == models::DocumentPooling::mean) return mean(context, states.hidden, batch);
  if (pooling_ == models::DocumentPooling::last) {
    return ops::select_rows(context, states.hidden, last_rows(batch));
  }
  return ops::select_rows(context, states.hidden, starts);
}

Tensor ClassifierHead::through_block(const ops::Context& context, const Tensor& hidden) const {
  const Tensor x = ops::dropout(context, hidden, context.dropout(dropout_, models::kHeadPlace));
  const ops::FeedForwardDropout dropout = {.outer =
                                               context.dropout(dropout_, models::kHeadDensePlace)};
  return ops::layer_norm(context, ops::feed_forward_add(context, x, *block_, hidden, dropout),
                         *norm_);
}

Tensor ClassifierHead::logits(const ops::Context& context, const EncoderStates& states) const {
  if (block_) {
    return ops::linear(context, through_block(context, states.hidden), classifier_, DType::f32);
  }
  const Dropout first = context.dropout(dropout_, models::kHeadPlace);
  if (!dense_) {
    const bool is_pooled = !per_token_ && pooling_ != models::DocumentPooling::last;
    const Tensor x = is_pooled ? states.pooled : read(context, states);
    return ops::linear(context, ops::dropout(context, x, first), classifier_, DType::f32);
  }
  const bool is_late = !per_token_ && pooling_ == models::DocumentPooling::late;
  const Tensor rows =
      ops::dropout(context, read(context, states), drops_input_ ? first : Dropout());
  Tensor dense =
      ops::linear(context, rows, *dense_, per_token_ || is_late ? context.dtype : DType::f32);
  if (norm_) dense = ops::layer_norm(context, dense, *norm_);
  if (is_late) dense = mean(context, dense, states.batch);
  const Dropout second = context.dropout(dropout_, models::kHeadDensePlace);
  return ops::linear(context, ops::dropout(context, dense, second), classifier_, DType::f32);
}

ops::LossSum ClassifierHead::loss(const ops::Context& context, const EncoderStates& states,
                                  const Targets& targets, const HeadLossOptions& options) const {
  check_count(targets.documents.size(), states.batch.documents(), "documents with targets");
  const Tensor said = logits(context, states);
  if (options.states != nullptr) options.states->said = said;
  return loss_of(context, said, states.batch, targets, options);
}

Tensor Head::logits_of_rows(const ops::Context&, const Tensor&) const {
  fail("logits: expected a head that computes those of some tokens, found another");
}

void check_count(std::size_t found, Index expected, const char* what) {
  require(static_cast<Index>(found) == expected, "loss: expected {} {}, found {}", expected, what,
          found);
}

std::vector<std::int32_t> labels_of(const Targets& targets) {
  std::vector<std::int32_t> labels;
  for (const DocumentTarget& target : targets.documents) {
    labels.insert(labels.end(), target.labels.begin(), target.labels.end());
  }
  return labels;
}

void check_token_labels(const models::Batch& batch, const Targets& targets) {
  for (std::size_t i = 0; i < targets.documents.size(); ++i) {
    const Index tokens = batch.starts[i + 1] - batch.starts[i];
    const std::size_t found = targets.documents[i].labels.size();
    require(static_cast<Index>(found) == tokens,
            "loss: document {}: expected a label for each of {} tokens, found {}", i, tokens,
            found);
  }
}

void check_labels(std::span<const std::int32_t> labels, Index classes) {
  for (const std::int32_t label : labels) {
    require(label == ops::kIgnored || (label >= 0 && label < classes),
            "loss: expected labels from 0 to {} (or {}, which does not count), found {}",
            classes - 1, ops::kIgnored, label);
  }
}

ops::LossSum class_loss(const ops::Context& context, const Tensor& logits,
                        std::span<const std::int32_t> labels, const HeadLossOptions& options) {
  check_count(labels.size(), logits.rows(), "labels");
  check_labels(labels, logits.columns());
  if (options.class_weights == nullptr) {
    return ops::cross_entropy(context, logits, labels, mean_of(labels_that_count(labels), options));
  }
  ops::LossOptions weighted = mean_of(weight_of(*options.class_weights, labels), options);
  weighted.class_weights = options.class_weights->right;
  return ops::cross_entropy(context, logits, labels, weighted);
}

ops::LossSum choice_loss(const ops::Context& context, const Tensor& logits,
                         std::span<const Index> choices, std::span<const std::int32_t> labels,
                         const HeadLossOptions& options) {
  check_count(labels.size(), static_cast<Index>(choices.size()), "right choices");
  std::vector<ops::RowChoice> questions;
  Index first = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    ops::RowChoice question = {.range = {first, first + choices[i]}, .right = {}};
    if (labels[i] != ops::kIgnored) {
      check_labels({&labels[i], 1}, choices[i]);
      question.right.push_back(first + labels[i]);
    }
    first = question.range.end;
    questions.push_back(std::move(question));
  }
  check_count(static_cast<std::size_t>(first), logits.rows(), "choices");
  return ops::row_cross_entropy(context, logits, 0, questions,
                                mean_of(labels_that_count(labels), options));
}

}  // namespace longformer::engine
