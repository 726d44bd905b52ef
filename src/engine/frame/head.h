// The layers of a task on an encoder, and the loss of what they say (docs/spec/encoder.md#a6).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/frame/class_weights.h"
#include "longformer/document.h"
#include "models/batch.h"
#include "models/config.h"
#include "models/layers.h"
#include "models/registry.h"
#include "ops/loss.h"

namespace longformer::engine {

/// Output of an encoder for a batch of n tokens.
struct EncoderStates {
  /// [n, D]
  const Tensor& hidden;
  /// The pooler's output, [documents, D]; empty where the head does not read it.
  const Tensor& pooled;
  const models::Batch& batch;
};

/// Targets of a head for a batch.
struct Targets {
  /// One for each document of the batch.
  std::span<const DocumentTarget> documents;
  /// How many documents each question has, where several belong to one.
  std::span<const Index> questions = {};
};

/// Inputs of a loss, for a caller that wants more of the pass than the loss.
struct PassStates {
  /// The encoder's, [n, D].
  Tensor hidden = {};
  /// Logits as Head::logits() has them, or vectors as VectorLossHead::vectors() does; empty of a
  /// head whose loss is made of neither.
  Tensor said = {};
};

struct HeadLossOptions {
  /// The gradient is that of scale times the mean loss of the batch.
  double scale = 1;
  double label_smoothing = 0;
  /// Weights of the classes in a training that has some; null: all weigh alike.
  const ClassWeights* class_weights = nullptr;
  /// Is filled in; null: nobody wants it.
  PassStates* states = nullptr;
};

/// How many of the labels count.
double labels_that_count(std::span<const std::int32_t> labels);

/// Options for an op whose loss is a sum over `count` things that count.
ops::LossOptions mean_of(double count, const HeadLossOptions& options);

class Head {
 public:
  virtual ~Head() = default;

  /// Whether there are logits for every token rather than for every document.
  virtual bool per_token() const = 0;

  /// Whether there are logits of a document alone, rather than of a text beside it, or of spans.
  virtual bool has_logits() const { return true; }

  /// fp32 logits of documents or tokens, [documents or n, outputs].
  virtual Tensor logits(const ops::Context& context, const EncoderStates& states) const = 0;

  /// fp32 logits of some rows of hidden states, [rows, outputs], of a head whose logits cost so
  /// much that they are computed only where they are asked for. Throws Error for others.
  virtual Tensor logits_of_rows(const ops::Context& context, const Tensor& hidden) const;

  /// Computes what the head says of documents alone, for benchmarks.
  virtual void speak(const ops::Context& context, const EncoderStates& states) const {
    if (has_logits()) logits(context, states);
  }

  /// The loss as `transformers` computes it is sum / weight; where nothing counts both are 0.
  /// Throws Error for targets that do not fit the batch.
  virtual ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                            const Targets& targets, const HeadLossOptions& options) const = 0;

  /// How much a micro-batch weighs among those of a step: 1 takes the mean of their mean losses.
  virtual double weight(const Targets& targets) const {
    static_cast<void>(targets);
    return 1;
  }
};

/// A head whose loss needs the vectors of a whole batch, so that a batch can be made part by part
/// (GradCache, Gao et al. 2021).
class VectorLossHead : public Head {
 public:
  /// The vectors of all rows in their order, [m, D] fp32. Throws Error for tokens beyond a row.
  virtual Tensor vectors(const ops::Context& context, const EncoderStates& states,
                         const Targets& targets) const = 0;
  /// The mean loss of such vectors of all documents of a batch. Throws Error for targets that do
  /// not fit.
  virtual ops::LossSum loss_of(const ops::Context& context, const Tensor& vectors,
                               const Targets& targets, const HeadLossOptions& options) const = 0;

  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const final {
    const Tensor all = vectors(context, states, targets);
    if (options.states != nullptr) options.states->said = all;
    return loss_of(context, all, targets, options);
  }
};

/// The layers of most heads: a classifier of documents or tokens, for documents behind a layer of
/// the first token.
struct HeadParts {
  /// Name of the layer that makes the logits, and their number.
  std::string classifier;
  Index outputs = 0;
  bool has_bias = true;
  bool per_token = false;
  /// The layer before the classifier; null for none.
  const models::DocumentLayer* layer = nullptr;
  /// That layer in config.json.
  models::HeadRecipe recipe = {};
  /// Dropout of what the layers are given while training.
  double dropout = 0;
  /// Name of a feed-forward block before the classifier of tokens, with residual and norm, and the
  /// size of its wide rows; empty for none.
  std::string block = {};
  Index block_size = 0;
  /// No other head has a classifier of this name.
  bool is_unmistakable = false;

  /// The layer before that of tokens, where a family has one.
  void read_tokens(const models::EncoderConfig& config) {
    const auto& before = config.traits().token_layer;
    per_token = true;
    layer = before ? &*before : nullptr;
    recipe = config.head;
  }
  /// That before the layer of answers.
  void read_spans(const models::EncoderConfig& config) {
    read_tokens(config);
    block = config.traits().span_block;
    block_size = config.intermediate_size;
    if (!block.empty()) recipe.activation = config.activation;
  }
  bool has_own_layer() const { return layer != nullptr && !layer->name.empty(); }
  bool reads_pooler() const { return !per_token && layer != nullptr && layer->name.empty(); }
};

class ClassifierHead : public Head {
 public:
  /// Throws Error that begins with `name` for a head without outputs or without its pooler, and for
  /// tensors that are missing or of another shape than the configuration says.
  ClassifierHead(const HeadParts& parts, const models::LayerSource& source, Index width,
                 std::string_view name);

  bool per_token() const override { return per_token_; }
  Tensor logits(const ops::Context& context, const EncoderStates& states) const override;
  ops::LossSum loss(const ops::Context& context, const EncoderStates& states,
                    const Targets& targets, const HeadLossOptions& options) const override;

 protected:
  /// The loss of those logits.
  virtual ops::LossSum loss_of(const ops::Context& context, const Tensor& logits,
                               const models::Batch& batch, const Targets& targets,
                               const HeadLossOptions& options) const = 0;

 private:
  /// The rows of tokens behind the block.
  Tensor through_block(const ops::Context& context, const Tensor& hidden) const;
  /// The rows of documents before the layer of their own, [documents, D], or those of tokens.
  Tensor read(const ops::Context& context, const EncoderStates& states) const;

  bool per_token_;
  double dropout_;
  models::DocumentPooling pooling_;
  /// The layer of tokens, or of documents where the head does not take the pooler's, and its norm.
  std::optional<ops::Linear> dense_;
  std::optional<ops::LayerNorm> norm_;
  std::optional<ops::FeedForward> block_;
  bool drops_input_ = true;
  ops::Linear classifier_;
};

// For the losses of several tasks.

/// Throws Error unless `found` is `expected`; `what` says what is counted.
void check_count(std::size_t found, Index expected, const char* what);
/// The labels of all documents behind each other.
std::vector<std::int32_t> labels_of(const Targets& targets);
/// Throws Error unless every document has a label for each of its tokens.
void check_token_labels(const models::Batch& batch, const Targets& targets);
/// Throws Error for labels beyond the classes.
void check_labels(std::span<const std::int32_t> labels, Index classes);
/// Cross-entropy of rows of logits with their labels.
ops::LossSum class_loss(const ops::Context& context, const Tensor& logits,
                        std::span<const std::int32_t> labels, const HeadLossOptions& options);
/// Cross-entropy of the right choice of each question; logits has a row for each choice, and
/// `choices` says how many each question has.
ops::LossSum choice_loss(const ops::Context& context, const Tensor& logits,
                         std::span<const Index> choices, std::span<const std::int32_t> labels,
                         const HeadLossOptions& options);

}  // namespace longformer::engine
