#include "models/convert_weights.h"

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "kernels/rows.h"
#include "models/heads.h"
#include "models/tensor_names.h"

namespace longformer::models {
namespace {

using formats::quote;

constexpr std::array kHeads = {
    HeadKind::masked_lm,          HeadKind::sequence_classification, HeadKind::token_classification,
    HeadKind::question_answering, HeadKind::multiple_choice,         HeadKind::candidate_scoring};

/// The tensors of the source, taken out one by one, so that what is left over is known.
class SourceTensors {
 public:
  explicit SourceTensors(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    for (const std::string& name : checkpoint_.names()) {
      if (!checkpoint_.is_buffer(name)) left_.insert(name);
    }
  }

  bool has(const std::string& name) const { return checkpoint_.has(name); }
  void drop(const std::string& name) { left_.erase(name); }
  const std::set<std::string>& left() const { return left_; }
  const std::string& path() const { return checkpoint_.path(); }

  Tensor take(const std::string& name, const Shape& shape) {
    drop(name);
    return checkpoint_.get(name, shape);
  }
  Tensor take(const std::string& name) { return take(name, checkpoint_.shape(name)); }
  Tensor read(const std::string& name) const {
    return checkpoint_.get(name, checkpoint_.shape(name));
  }

  /// Whatever was not taken belongs to a head that Longformer has not.
  void require_empty(const std::string& architecture) const {
    if (left_.empty()) return;
    fail("{}: expected an encoder, with a head that Longformer has or none, found a tensor {}{}{}",
         checkpoint_.path(), quote(*left_.begin()), architecture.empty() ? "" : " of ",
         architecture);
  }

 private:
  const Checkpoint& checkpoint_;
  std::set<std::string> left_;
};

/// Collects the target's tensors in the order of the model.
class Converter {
 public:
  Converter(const EncoderConfig& config, const Checkpoint& checkpoint, const WeightPlan& plan)
      : config_(config),
        plan_(plan),
        masked_lm_(masked_lm_names(config.model_type)),
        source_(checkpoint) {}

  ConvertedWeights convert() {
    const HeadKind head = find_head();
    prefix_ = head == HeadKind::none ? "" : "longformer.";
    for (const auto& [name, shape] : encoder_tensors(config_)) encoder_tensor(name, shape);
    // Longformer classifies with a layer of its own where BERT has its pooler.
    const bool classifies_with_pooler =
        head == HeadKind::sequence_classification && source_.has("classifier.weight");
    if (source_.has("pooler.dense.weight") && !classifies_with_pooler) pooler(head);
    convert_head(head, classifies_with_pooler);
    // BERT's next-sentence head, which Longformer has not, and buffers of old files.
    for (const char* name : {"embeddings.position_ids", "embeddings.token_type_ids",
                             "cls.seq_relationship.weight", "cls.seq_relationship.bias"}) {
      source_.drop(name);
    }
    if (config_.model_type == ModelType::longformer) keep_the_rest();
    source_.require_empty(config_.architecture);
    const bool has_own_name = config_.architecture.starts_with("Longformer");
    return {.tensors = std::move(result_),
            .architecture = has_own_name ? config_.architecture : architecture(head)};
  }

 private:
  bool has_weight(const std::string& name) const { return source_.has(name + ".weight"); }

  /// By the class that config.json names where the tensors alone do not say it.
  HeadKind find_head() const {
    if (has_weight(masked_lm_.dense)) return HeadKind::masked_lm;
    if (has_weight("qa_outputs")) return HeadKind::question_answering;
    if (has_weight("candidate_scorer")) return HeadKind::candidate_scoring;
    if (has_weight("classifier.out_proj")) return HeadKind::sequence_classification;
    if (!has_weight("classifier")) return HeadKind::none;
    for (const HeadKind head : kHeads) {
      if (config_.architecture.ends_with(class_ending(head))) return head;
    }
    fail(
        "{}: expected architectures of a head that Longformer has, with a tensor "
        "\"classifier.weight\", found {}",
        source_.path(), quote(config_.architecture));
  }

  static std::string architecture(HeadKind head) {
    return fmt::format("Longformer{}", class_ending(head));
  }

  void add(const std::string& name, const Tensor& tensor) {
    if (!plan_.dtype) {
      result_.emplace_back(name, tensor);
      return;
    }
    try {
      result_.emplace_back(name, tensor.to(*plan_.dtype));
    } catch (const Error& error) {
      fail("tensor {}: {}", quote(name), error.what());
    }
  }

  void encoder_tensor(const std::string& name, const Shape& shape) {
    Tensor tensor = source_.take(name, shape);
    if (name == kPositionEmbeddings) {
      tensor = kernels::tile_rows(tensor, {.source_reserved = config_.first_position(),
                                           .target_reserved = config_.pad_token_id + 1,
                                           .count = plan_.max_positions});
    }
    add(prefix_ + name, tensor);
    if (config_.model_type == ModelType::longformer) return;
    for (const std::string projection : {"self.query", "self.key", "self.value"}) {
      const std::size_t place = name.find(projection);
      if (place == std::string::npos) continue;
      std::string global = prefix_ + name;
      global.insert(prefix_.size() + place + projection.size(), "_global");
      add(global, tensor);
    }
  }

  /// A Longformer's head may be of any kind: nothing about it changes.
  void keep_the_rest() {
    const std::set<std::string> names = source_.left();
    for (const std::string& name : names) add(name, source_.take(name));
  }

  /// Classes whose head does not read the pooler have none.
  void pooler(HeadKind head) {
    const bool is_read =
        head == HeadKind::none || head == HeadKind::masked_lm || head == HeadKind::multiple_choice;
    for (const auto& [name, shape] : pooler_tensors(config_)) {
      const Tensor tensor = source_.take(name, shape);
      if (is_read) add(prefix_ + name, tensor);
    }
  }

  void convert_head(HeadKind head, bool classifies_with_pooler) {
    switch (head) {
      case HeadKind::none:
        return;
      case HeadKind::masked_lm:
        return config_.model_type == ModelType::longformer ? untie() : masked_lm();
      case HeadKind::sequence_classification:
        move(classifies_with_pooler ? "pooler.dense" : "classifier.dense", "classifier.dense");
        return move(classifies_with_pooler ? "classifier" : "classifier.out_proj",
                    "classifier.out_proj");
      case HeadKind::token_classification:
      case HeadKind::multiple_choice:
        return move("classifier", "classifier");
      case HeadKind::question_answering:
        return move("qa_outputs", "qa_outputs");
      case HeadKind::candidate_scoring:
        move_matrix("candidate_scorer", "candidate_scorer");
        return;
    }
  }

  /// A matrix [outputs, hidden size] with its bias.
  void move(const std::string& from, const std::string& to) {
    const Index outputs = move_matrix(from, to);
    add(to + ".bias", source_.take(from + ".bias", {outputs}));
  }

  /// The outputs of a matrix [outputs, hidden size].
  Index move_matrix(const std::string& from, const std::string& to) {
    const Tensor matrix = source_.take(from + ".weight");
    require(matrix.shape().size() == 2 && matrix.columns() == config_.hidden_size,
            "{}: expected a tensor {}.weight of {} columns, found {}", source_.path(), from,
            config_.hidden_size, to_string(matrix.shape()));
    add(to + ".weight", matrix);
    return matrix.rows();
  }

  /// PyTorch files hold the two names of tied tensors, of which one is enough.
  void untie() {
    const std::array<std::pair<std::string, std::string>, 2> ties = {
        {{masked_lm_.decoder + ".weight", kWordEmbeddings},
         {masked_lm_.bias[0], masked_lm_.bias[1]}}};
    for (const auto& [tied, original] : ties) {
      const bool both = source_.has(tied) && source_.has(original);
      if (both && source_.read(tied).is_same_as(source_.read(original))) source_.drop(tied);
    }
  }

  void masked_lm() {
    const Index width = config_.hidden_size;
    const Index vocabulary = config_.vocab_size;
    const auto copy = [&](const std::string& from, const std::string& to, const Shape& shape) {
      add("lm_head." + to, source_.take(from, shape));
    };
    copy(masked_lm_.dense + ".weight", "dense.weight", {width, width});
    copy(masked_lm_.dense + ".bias", "dense.bias", {width});
    copy(masked_lm_.norm + ".weight", "layer_norm.weight", {width});
    copy(masked_lm_.norm + ".bias", "layer_norm.bias", {width});
    const Tensor bias =
        source_.take(masked_lm_.bias[source_.has(masked_lm_.bias[0]) ? 0 : 1], {vocabulary});
    source_.drop(masked_lm_.bias[1]);
    add("lm_head.bias", bias);
    const std::string decoder = masked_lm_.decoder + ".weight";
    if (config_.tie_word_embeddings) {
      source_.drop(decoder);
      return;
    }
    copy(decoder, "decoder.weight", {vocabulary, width});
    add("lm_head.decoder.bias", bias);
  }

  const EncoderConfig& config_;
  const WeightPlan& plan_;
  MaskedLmNames masked_lm_;
  SourceTensors source_;
  std::string prefix_;
  std::vector<std::pair<std::string, Tensor>> result_;
};

}  // namespace

ConvertedWeights convert_weights(const EncoderConfig& config, const Checkpoint& source,
                                 const WeightPlan& plan) {
  return Converter(config, source, plan).convert();
}

}  // namespace longformer::models
