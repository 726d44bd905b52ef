// Evaluating a masked-LM model on plain text (spec.md C.3).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "api/evaluation_run.h"
#include "api/model_implementation.h"
#include "core/error.h"
#include "ops/embedding.h"
#include "tasks/masking.h"
#include "tasks/text_data.h"

namespace longformer {
namespace {

/// Sums over chosen tokens.
struct Guesses {
  double loss = 0;
  std::int64_t count = 0, right = 0;
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

/// What the model makes of the chosen tokens of a row; logits of all of them never exist together.
Guesses guess(const Model::Implementation& model, const tasks::MaskedRow& row,
              std::span<const std::int32_t> globals) {
  constexpr std::size_t kChunk = 256;
  Guesses guesses;
  if (row.positions.empty()) return guesses;
  DocumentInput input;
  input.ids = row.ids;
  input.global_attention_mask = globals;
  const models::Batch batch = model.batch({&input, 1});
  const auto turn = model.turn();
  const models::MaskedLmHead& head = model.masked_lm_head();
  const ops::Context context = model.context();
  const Tensor hidden = model.encoder.forward(context, batch);
  for (std::size_t begin = 0; begin < row.positions.size(); begin += kChunk) {
    const std::size_t count = std::min(kChunk, row.positions.size() - begin);
    const std::span<const Index> positions(row.positions.data() + begin, count);
    const std::vector<float> logits =
        head.forward(context, ops::select_rows(context, hidden, positions)).to_floats();
    const std::size_t width = logits.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      score(std::span(logits).subspan(i * width, width), row.labels[begin + i], guesses);
    }
  }
  return guesses;
}

class MaskedLmRun {
 public:
  explicit MaskedLmRun(EvaluationRun& run)
      : run_(run),
        options_(run.options.masking),
        rules_(tasks::masking_rules(run.tokenizer)),
        packer_(run.tokenizer,
                {.tokens = row_tokens(run), .across_documents = options_.across_documents}) {
    require(options_.probability > 0 && options_.probability <= 1,
            "masking: expected a probability above 0 and up to 1, found {}", options_.probability);
    require(options_.every >= 0, "masking: expected a step of at least 1, found {}",
            options_.every);
    rules_.probability = options_.probability;
  }

  void evaluate() {
    tasks::DataReport report;
    tasks::read_texts(run_.path, run_.options.data, report, [this](const std::string& text) {
      const Encoding tokens =
          run_.tokenizer.encode(text, {.add_special_tokens = false, .max_length = {}});
      packer_.add(tokens.ids, rows_);
    });
    packer_.finish(rows_);
    require(!rows_.empty(), "{}: expected text, found none", run_.path);
    run_.start(report);
    Guesses total;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const Guesses found = evaluate_row(row);
      total.loss += found.loss;
      total.count += found.count;
      total.right += found.right;
    }
    finish(report, total);
  }

 private:
  static Index row_tokens(const EvaluationRun& run) {
    const Index most = run.model.info().max_tokens;
    const Index asked = run.options.masking.row_tokens;
    require(asked >= 0 && asked <= most, "rows: expected at most {} tokens, found {}", most, asked);
    return asked > 0 ? asked : most;
  }

  Guesses evaluate_row(std::size_t number) {
    const std::vector<std::int32_t>& ids = rows_[number];
    const tasks::MaskedRow row = options_.every > 0
                                     ? tasks::mask_every(ids, rules_, options_.every, 0)
                                     : tasks::mask_row(ids, rules_, options_.seed, number);
    std::vector<std::int32_t> globals;
    if (run_.options.global_attention) {
      Encoding tokens;
      tokens.ids = row.ids;
      globals = run_.options.global_attention->mask(run_.model, tokens, {});
    }
    const Guesses found = guess(run_.model.implementation(), row, globals);
    require(std::isfinite(found.loss),
            "{}: row {}: expected a finite loss from the model, found {}", run_.path, number,
            found.loss);
    tokens_ += static_cast<std::int64_t>(ids.size());
    describe(number, row, found);
    const auto rows = static_cast<std::int64_t>(rows_.size());
    const auto done = static_cast<std::int64_t>(number) + 1;
    if (run_.options.progress) {
      run_.options.progress({done, rows, tokens_, tokens_ * rows / done});
    }
    return found;
  }

  void describe(std::size_t number, const tasks::MaskedRow& row, const Guesses& found) const {
    if (!run_.options.predictions) return;
    tasks::Json json = tasks::Json::object();
    json["row"] = number;
    json["ids"] = row.ids;
    json["positions"] = row.positions;
    json["labels"] = row.labels;
    json["loss"] = found.count > 0 ? tasks::Json(found.loss / static_cast<double>(found.count))
                                   : tasks::Json();
    run_.predict(json);
  }

  void finish(const tasks::DataReport& report, const Guesses& total) {
    require(total.count > 0, "{}: expected a token that is masked, found none in {} tokens",
            run_.path, tokens_);
    const auto count = static_cast<double>(total.count);
    const double loss = total.loss / count;
    run_.result.examples = report.examples;
    run_.result.tokens = tokens_;
    run_.result.masked_tokens = total.count;
    run_.add("loss", loss);
    run_.add("bpc", loss / std::numbers::ln2);
    run_.add("perplexity", std::exp(loss));
    run_.add("accuracy", static_cast<double>(total.right) / count);
  }

  EvaluationRun& run_;
  const MaskingOptions& options_;
  tasks::MaskingRules rules_;
  tasks::DocumentPacker packer_;
  std::vector<std::vector<std::int32_t>> rows_;
  std::int64_t tokens_ = 0;
};

}  // namespace

void evaluate_masked_lm(EvaluationRun& run) { MaskedLmRun(run).evaluate(); }

}  // namespace longformer
