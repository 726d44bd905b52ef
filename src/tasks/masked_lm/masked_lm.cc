#include "tasks/masked_lm/masked_lm.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "engine/frame/collation.h"
#include "engine/frame/evaluation_run.h"
#include "models/attention/attention.h"
#include "models/encoder.h"
#include "ops/embedding.h"
#include "tasks/engine_names.h"
#include "tasks/masked_lm/masking.h"
#include "tasks/masked_lm/text_data.h"

namespace longformer::tasks {
namespace {

ops::Linear decoder(const models::EncoderConfig& config, const models::LayerSource& source) {
  const models::MaskedLmNames& names = *config.traits().masked_lm;
  const models::Weights& weights = source.weights;
  const std::string own = std::string(names.decoder) + ".weight";
  // transformers keeps a decoder that the file has, even where the configuration ties it; in a
  // training both are one where they are alike.
  const bool tied = config.tie_word_embeddings &&
                    (!weights.has(own) || weights.tie(own, models::kWordEmbeddings));
  const std::string first(names.bias[0]), second(names.bias[1]);
  if (first != second && weights.has(first) && weights.has(second)) weights.tie(second, first);
  return models::linear(
      source, tied ? models::kWordEmbeddingLayer : std::string(names.decoder),
      {config.vocab_size, names.dense.empty() ? config.last_size() : config.embedding_size},
      {.has_bias = config.head.decoder_bias,
       .bias_name = weights.has(first) ? first : second,
       .trains_bias = names.trains_bias});
}

/// Nothing where the decoder reads the hidden states.
std::optional<ops::Linear> dense_layer(const models::EncoderConfig& config,
                                       const models::LayerSource& source) {
  const models::MaskedLmNames& names = *config.traits().masked_lm;
  if (names.dense.empty()) return std::nullopt;
  const models::Activation own = config.head.activation.value_or(config.activation);
  return models::linear(
      source, std::string(names.dense), {config.embedding_size, config.hidden_size},
      {.activation = names.activation.value_or(own), .has_bias = config.head.has_bias});
}

ops::LayerNorm norm_of_dense(const models::EncoderConfig& config,
                             const models::LayerSource& source) {
  const models::MaskedLmNames& names = *config.traits().masked_lm;
  if (names.dense.empty()) return {};
  return models::layer_norm(source, std::string(names.norm), config.embedding_size);
}

constexpr Counter kMaskedTokens = {.name = "masked_tokens",
                                   .meaning = "tokens that were guessed",
                                   .row = "masked tokens",
                                   .is_of_model = true};

/// Documents as rows of tokens, and what reading them said.
struct PackedText {
  std::vector<std::vector<std::int32_t>> rows;
  std::vector<Index> lengths;
  DataReport report;
  Index tokens = 0;
};

/// Sums over chosen tokens.
struct Guesses {
  double loss = 0;
  std::int64_t count = 0, right = 0;

  void operator+=(const Guesses& more) {
    loss += more.loss;
    count += more.count;
    right += more.right;
  }
};

/// −log of the probability of the label, and whether it has the largest logit.
void score(std::span<const float> logits, std::int32_t label, Guesses& guesses) {
  const auto best = std::max_element(logits.begin(), logits.end());
  const auto largest = static_cast<double>(*best);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const auto right = static_cast<double>(logits[static_cast<std::size_t>(label)]);
  guesses.loss += largest + std::log(sum) - right;
  ++guesses.count;
  guesses.right += best - logits.begin() == label ? 1 : 0;
}

/// Guesses of the model at the chosen tokens of a row; logits of all of them never exist together.
Guesses guess(const EvaluatedModel& model, const MaskedRow& row, const TokenRow& tokens) {
  constexpr std::size_t kChunk = 256;
  Guesses guesses;
  if (row.positions.empty()) return guesses;
  model.with_states({&tokens, 1}, [&](const ops::Context& context, const Head& any,
                                      const Tensor& hidden) {
    const auto& head = dynamic_cast<const MaskedLmHead&>(any);
    for (std::size_t begin = 0; begin < row.positions.size(); begin += kChunk) {
      const std::size_t count = std::min(kChunk, row.positions.size() - begin);
      const std::span<const Index> positions(row.positions.data() + begin, count);
      const std::vector<float> logits =
          head.logits_of_rows(context, ops::select_rows(context, hidden, positions)).to_floats();
      const std::size_t width = logits.size() / count;
      for (std::size_t i = 0; i < count; ++i) {
        score(std::span(logits).subspan(i * width, width), row.labels[begin + i], guesses);
      }
    }
  });
  return guesses;
}

/// Other tokens of a row are hidden in each epoch.
class MaskedRows final : public TrainingSet {
 public:
  MaskedRows(std::shared_ptr<const PackedText> text, MaskingRules rules,
             const models::EncoderConfig& config)
      : text_(std::move(text)), rules_(std::move(rules)), config_(config) {
    report_.data = text_->report;
    report_.documents = text_->report.examples;
    report_.tokens = text_->tokens;
    report_.rows = size();
  }

  Index size() const override { return static_cast<Index>(text_->rows.size()); }
  std::span<const Index> lengths() const override { return text_->lengths; }
  const CollationReport& report() const override { return report_; }

  TrainingBatch batch(std::span<const Index> examples, const Epoch& epoch) const override {
    TrainingBatch batch;
    models::BatchBuilder builder(config_);
    for (const Index row : examples) {
      const std::uint64_t number =
          static_cast<std::uint64_t>(epoch.number * size()) + static_cast<std::uint64_t>(row);
      const MaskedRow masked = mask_row(text_->rows[at(row)], rules_, epoch.seed, number);
      DocumentTarget& target = batch.targets.emplace_back();
      target.labels.resize(masked.ids.size(), kIgnoredLabel);
      for (std::size_t i = 0; i < masked.positions.size(); ++i) {
        target.labels[at(masked.positions[i])] = masked.labels[i];
      }
      batch.questions.push_back(1);
      builder.add({.ids = masked.ids}, "row");
    }
    batch.tokens = builder.finish();
    return batch;
  }

 private:
  std::shared_ptr<const PackedText> text_;
  MaskingRules rules_;
  const models::EncoderConfig& config_;
  CollationReport report_;
};

class MaskedText final : public DataSet {
 public:
  MaskedText(std::vector<std::string> files, const DataOptions& options,
             const MaskingOptions& masking)
      : files_(std::move(files)), options_(options), masking_(masking) {
    require(!files_.empty(), "training text: expected at least one file, found none");
  }

  std::vector<std::string> metric_names() const override {
    return {"loss", "bpc", "perplexity", "accuracy"};
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    PackedText text = pack(setup.tokenizer, setup.config, masking_);
    // A row that is shorter than the positions which are trained cannot be learned from.
    const Index whole = setup.config.trained_length();
    if (text.rows.size() > 1 && text.lengths.back() < std::min(whole, text.lengths[0])) {
      text.tokens -= text.lengths.back();
      text.rows.pop_back();
      text.lengths.pop_back();
    }
    packed_ = std::make_shared<const PackedText>(std::move(text));
    return std::make_unique<MaskedRows>(packed_, rules(setup.tokenizer, masking_), setup.config);
  }

  void evaluate(EvaluationRun& run) const override {
    const MaskingOptions& masking = run.options.masking;
    const MaskingRules rules = this->rules(run.model.tokenizer(), masking);
    const bool is_packed = packed_ != nullptr && masking.row_tokens == masking_.row_tokens &&
                           masking.across_documents == masking_.across_documents;
    const auto packed = is_packed ? packed_
                                  : std::make_shared<const PackedText>(
                                        pack(run.model.tokenizer(), run.model.config(), masking));
    const PackedText& text = *packed;
    run.start(text.report);
    Guesses total;
    Index tokens = 0;
    for (std::size_t number = 0; number < text.rows.size(); ++number) {
      const std::vector<std::int32_t>& ids = text.rows[number];
      const MaskedRow row = masking.every > 0 ? mask_every(ids, rules, masking.every, 0)
                                              : mask_row(ids, rules, masking.seed, number);
      const Guesses found = guess(run.model, row, token_row(row, run.options.reading));
      require(std::isfinite(found.loss),
              "{}: row {}: expected a finite loss from the model, found {}", run.path, number,
              found.loss);
      total += found;
      tokens += static_cast<Index>(ids.size());
      if (run.wants_predictions()) describe(number, row, found, run);
      const auto done = static_cast<Index>(number) + 1;
      const auto rows = static_cast<Index>(text.rows.size());
      if (run.options.progress) {
        run.options.progress({done, rows, tokens, tokens * rows / done});
      }
    }
    run.result.examples = text.report.examples;
    run.result.tokens = tokens;
    finish(total, run);
  }

 private:
  PackedText pack(const Tokenizer& tokenizer, const models::EncoderConfig& config,
                  const MaskingOptions& masking) const {
    PackedText text;
    DocumentPacker packer(tokenizer, {.tokens = masked_row_tokens(config, masking),
                                      .across_documents = masking.across_documents});
    for (const std::string& file : files_) {
      read_texts(file, options_, text.report, [&](const std::string& document) {
        packer.add(encode_plain(tokenizer, document).ids, text.rows);
      });
    }
    packer.finish(text.rows);
    require(!text.rows.empty(), "{}: expected text, found none{}", files_[0],
            files_.size() > 1 ? fmt::format(" in {} files", files_.size()) : "");
    for (const auto& row : text.rows) {
      text.lengths.push_back(static_cast<Index>(row.size()));
      text.tokens += text.lengths.back();
    }
    return text;
  }

  static MaskingRules rules(const Tokenizer& tokenizer, const MaskingOptions& masking) {
    require(masking.probability > 0 && masking.probability <= 1,
            "masking: expected a probability above 0 and up to 1, found {}", masking.probability);
    require(masking.every >= 0, "masking: expected a step of at least 1, found {}", masking.every);
    MaskingRules rules = masking_rules(tokenizer);
    rules.probability = masking.probability;
    return rules;
  }

  /// Rules of global attention see the masked tokens, without a text.
  static TokenRow token_row(const MaskedRow& row, const ReadingOptions& reading) {
    TokenRow tokens = {.ids = row.ids, .types = {}, .global_positions = {}};
    if (!reading.global_positions) return tokens;
    Encoding encoding;
    encoding.ids = row.ids;
    tokens.global_positions = reading.global_positions(encoding, {});
    return tokens;
  }

  static void describe(std::size_t number, const MaskedRow& row, const Guesses& found,
                       EvaluationRun& run) {
    Json json = Json::object();
    json["row"] = number;
    json["ids"] = row.ids;
    json["positions"] = row.positions;
    json["labels"] = row.labels;
    json["loss"] = found.count > 0 ? Json(found.loss / static_cast<double>(found.count)) : Json();
    run.predict(json);
  }

  static void finish(const Guesses& total, EvaluationRun& run) {
    require(total.count > 0, "{}: expected a token that is masked, found none in {} tokens",
            run.path, run.result.tokens);
    const auto count = static_cast<double>(total.count);
    const double loss = total.loss / count;
    run.result.counts[kMaskedTokens] = total.count;
    run.add("loss", loss);
    run.add("bpc", loss / std::numbers::ln2);
    run.add("perplexity", std::exp(loss));
    run.add("accuracy", static_cast<double>(total.right) / count);
  }

  std::vector<std::string> files_;
  DataOptions options_;
  /// How rows for training are masked.
  MaskingOptions masking_;
  /// The text that collate() read last, so that evaluations of a training read no file.
  mutable std::shared_ptr<const PackedText> packed_;
};

class MaskedLm final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {.head = "masked-lm",
                                        .verb = "",
                                        .class_ending = "ForMaskedLM",
                                        .other_class = {},
                                        .evaluation = "mlm"};
    return names;
  }

  std::optional<HeadParts> parts(const models::EncoderConfig&) const override {
    return std::nullopt;
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    require(config.traits().masked_lm.has_value(),
            "masked LM: expected a model that has such a head, found {}", config.model_type());
    return std::make_unique<MaskedLmHead>(config, models::layer_source(config, weights, dtype));
  }

  bool is_present(const models::EncoderConfig& config,
                  const models::Weights& weights) const override {
    const auto& names = config.traits().masked_lm;
    if (!names) return false;
    const bool is_named = config.architecture.ends_with("ForMaskedLM");
    if (names->dense.empty()) {
      // A tied decoder has no tensor in the file.
      return weights.has(std::string(names->decoder) + ".weight") ||
             (is_named && config.tie_word_embeddings);
    }
    if (!weights.has(std::string(names->dense) + ".weight")) return false;
    return !names->is_shared || is_named;
  }

  bool has_logits_on_request() const override { return true; }
  std::vector<const Counter*> counters() const override {
    return {&kSkipped, &kEmpty, &kMaskedTokens};
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    return masked_text({path}, options, {});
  }
};

}  // namespace

MaskedLmHead::MaskedLmHead(const models::EncoderConfig& config, const models::LayerSource& source)
    : dense_(dense_layer(config, source)),
      norm_(norm_of_dense(config, source)),
      decoder_(decoder(config, source)) {}

Tensor MaskedLmHead::transform(const ops::Context& context, const Tensor& hidden) const {
  if (!dense_) return hidden;
  return ops::linear_norm(context, hidden, *dense_, norm_);
}

Tensor MaskedLmHead::logits_of_rows(const ops::Context& context, const Tensor& hidden) const {
  return ops::linear(context, transform(context, hidden), decoder_, DType::f32);
}

ops::LossSum MaskedLmHead::loss(const ops::Context& context, const EncoderStates& states,
                                const Targets& targets, const HeadLossOptions& options) const {
  check_count(targets.documents.size(), states.batch.documents(), "documents with targets");
  check_token_labels(states.batch, targets);
  const std::vector<std::int32_t> all = labels_of(targets);
  check_labels(all, decoder_.out_features());
  std::vector<Index> rows;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == kIgnoredLabel) continue;
    rows.push_back(static_cast<Index>(i));
    labels.push_back(all[i]);
  }
  if (rows.empty()) return {};
  const Tensor chosen = transform(context, ops::select_rows(context, states.hidden, rows));
  return ops::linear_cross_entropy(context, chosen, decoder_, labels,
                                   mean_of(static_cast<double>(rows.size()), options));
}

const Task& masked_lm() {
  static const MaskedLm task;
  return task;
}

std::unique_ptr<DataSet> masked_text(std::vector<std::string> files, const DataOptions& options,
                                     const MaskingOptions& masking) {
  return std::make_unique<MaskedText>(std::move(files), options, masking);
}

Index masked_row_tokens(const models::EncoderConfig& config, const MaskingOptions& masking) {
  const Index most = config.max_tokens();
  require(masking.row_tokens >= 0 && masking.row_tokens <= most,
          OptionName("masking.max_seq_length"), "expected at most {} tokens, found {}", most,
          masking.row_tokens);
  return masking.row_tokens > 0 ? masking.row_tokens : most;
}

}  // namespace longformer::tasks
