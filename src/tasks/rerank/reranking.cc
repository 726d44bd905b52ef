#include "tasks/rerank/reranking.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "core/error.h"
#include "engine/frame/collation.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/split.h"
#include "tasks/classification/classification.h"
#include "tasks/rerank/hard_negatives.h"
#include "tasks/rerank/rerank_data.h"

namespace longformer::tasks {
namespace {

/// Number of texts that nDCG and MRR read, as retrieval has it.
constexpr std::size_t kFirstTexts = 10;

constexpr Counter kNoRelevantText = {
    .name = "queries_without_relevant_text",
    .meaning = "rerank: queries without a relevant text, which are left out",
    .evaluation = {.one = "left out {n} query without a relevant text",
                   .many = "left out {n} queries without a relevant text"}};

/// Sums over queries.
struct RankingSums {
  double ndcg = 0, reciprocal_rank = 0, average_precision = 0, recall_at_1 = 0;
  double queries = 0;
};

double gain_at(double relevance, std::size_t rank) {
  return relevance / std::log2(static_cast<double>(rank) + 2);
}

/// Adds the scores of one query. `order` has the relevances in the order of the ranking.
void add_query(std::span<const float> order, RankingSums& sums) {
  std::vector<float> ideal(order.begin(), order.end());
  std::ranges::sort(ideal, std::greater());
  double gain = 0, best_gain = 0, found = 0, precisions = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (rank < kFirstTexts) {
      gain += gain_at(order[rank], rank);
      best_gain += gain_at(ideal[rank], rank);
    }
    if (order[rank] <= 0) continue;
    if (found == 0 && rank < kFirstTexts) {
      sums.reciprocal_rank += 1 / static_cast<double>(rank + 1);
    }
    precisions += ++found / static_cast<double>(rank + 1);
  }
  sums.ndcg += gain / best_gain;
  sums.average_precision += precisions / found;
  sums.recall_at_1 += order[0] > 0 ? 1 / found : 0;
  ++sums.queries;
}

/// Numbers of the texts, best first. Among texts of one score the less relevant stands first, so
/// that a model that says the same of all is not right.
std::vector<std::size_t> ranking_of(std::span<const float> logits,
                                    const std::vector<JudgedText>& texts) {
  std::vector<std::size_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (logits[a] != logits[b]) return logits[a] > logits[b];
    return texts[a].relevance < texts[b].relevance;
  });
  return order;
}

/// All texts of a query as one reading, whose places say which text a row is of.
Reading read_all_texts(const RowReader& reader, const RerankExample& example) {
  Reading all;
  for (std::size_t i = 0; i < example.texts.size(); ++i) {
    Reading one = reader.read_pair(example.query, example.texts[i].text);
    all.tokens += one.tokens;
    all.truncated += one.truncated;
    for (TokenRow& row : one.rows) {
      all.rows.push_back(std::move(row));
      all.places.push_back(static_cast<Index>(i));
    }
  }
  return all;
}

/// The logit of each text: that of its best row.
std::vector<float> best_logits(const Document& document, std::size_t texts) {
  std::vector<float> logits(texts, -std::numeric_limits<float>::infinity());
  for (std::size_t row = 0; row < document.outputs.size(); ++row) {
    float& best = logits[at(document.reading.places[row])];
    best = std::max(best, document.outputs[row].at(0));
  }
  return logits;
}

class RerankSet final : public DataSet {
 public:
  RerankSet(RerankData data, RerankTaskOptions options, std::vector<std::string> labels)
      : data_(std::move(data)), options_(options), labels_(std::move(labels)) {
    add_hard_negatives(data_, options_.hard_negatives);
  }

  std::vector<std::string> labels() const override { return labels_; }
  /// A single class by itself: its score is a sigmoid.
  std::string problem_type() const override {
    return std::string(name_of(ProblemType::multi_label));
  }
  bool has_one_class() const override { return false; }
  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override {
    return {"ndcg_at_10", "mrr_at_10", "map", "recall_at_1"};
  }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(
        data_.examples, [](const auto& one) { return std::vector{split_key("text", one.query)}; });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    return engine::split_off(*this, &RerankSet::data_, examples);
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& given) const override {
    require(given.reading.too_long != TooLong::split, {Remedy::truncate}, OptionName("stride"),
            "expected truncation of long texts, found a stride");
    const bool is_listwise = loss() == RerankLoss::listwise;
    if (is_listwise) check_lists();
    // An evaluation asks the model of every text once, a training perhaps more often.
    CollationSetup setup = given;
    setup.keeps_readings = false;
    return collated(data_, setup, [&](Collator& rows, const RerankExample& example) {
      return is_listwise ? lists_of(rows, example) : pairs_of(rows, example);
    });
  }

  void evaluate(EvaluationRun& run) const override {
    const RowReader reader(run.model.tokenizer(), run.options.reading);
    RankingSums sums;
    const auto read = [&](const RerankExample& example) { return read_all_texts(reader, example); };
    const auto score = [&](const RerankExample& example, const Document& document,
                           Json& prediction) {
      const auto logits = best_logits(document, example.texts.size());
      const auto order = ranking_of(logits, example.texts);
      std::vector<float> relevances;
      prediction["ranking"] = Json::array();
      for (const std::size_t i : order) {
        relevances.push_back(example.texts[i].relevance);
        prediction["ranking"].push_back(
            {{"index", i}, {"logit", logits[i]}, {"relevance", example.texts[i].relevance}});
      }
      if (example.has_relevant()) {
        add_query(relevances, sums);
      } else {
        ++run.result.counts[kNoRelevantText];
      }
    };
    run.each(data_.examples, read, score);
    require(sums.queries > 0, "{}: expected a query with a relevant text, found none", data_.path);
    run.add("ndcg_at_10", sums.ndcg / sums.queries);
    run.add("mrr_at_10", sums.reciprocal_rank / sums.queries);
    run.add("map", sums.average_precision / sums.queries);
    run.add("recall_at_1", sums.recall_at_1 / sums.queries);
  }

 private:
  RerankLoss loss() const {
    return options_.loss.value_or(data_.has_lists && data_.is_binary ? RerankLoss::listwise
                                                                     : RerankLoss::pointwise);
  }

  void check_lists() const {
    require(data_.is_binary, OptionName("data.rerank_loss", "rerank loss"),
            "expected relevances of 0 and 1 for a listwise loss, found others in {}", data_.path);
    for (const RerankExample& example : data_.examples) {
      require(example.has_irrelevant() || !example.has_relevant(),
              OptionName("data.hard_negatives", "hard-negatives"),
              "expected at least 1 where a query has no irrelevant text, as in {}, found {}",
              place_of(data_.path, example.origin), options_.hard_negatives);
    }
  }

  static std::vector<Example> pairs_of(Collator& rows, const RerankExample& example) {
    std::vector<Example> pairs;
    for (const JudgedText& one : example.texts) {
      Reading reading = rows.reader().read_pair(example.query, one.text);
      pairs.push_back(rows.example_of(reading));
      pairs.back().targets[0].values = {one.relevance};
    }
    return pairs;
  }

  /// An example of each relevant text with all irrelevant ones behind it.
  static std::vector<Example> lists_of(Collator& rows, const RerankExample& example) {
    std::vector<Example> lists;
    for (const JudgedText& relevant : example.texts) {
      if (relevant.relevance == 0) continue;
      Example& list = lists.emplace_back();
      add_row(rows, example.query, relevant.text, list);
      for (const JudgedText& other : example.texts) {
        if (other.relevance == 0) add_row(rows, example.query, other.text, list);
      }
      list.targets[0].labels = {0};
    }
    return lists;
  }

  static void add_row(Collator& rows, const std::string& query, const std::string& text,
                      Example& list) {
    Reading reading = rows.reader().read_pair(query, text);
    Example one = rows.example_of(reading);
    std::ranges::move(one.rows, std::back_inserter(list.rows));
    std::ranges::move(one.targets, std::back_inserter(list.targets));
  }

  RerankData data_;
  RerankTaskOptions options_;
  std::vector<std::string> labels_;
};

class Reranking final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {.head = "sequence-classification",
                                        .verb = "rerank",
                                        .class_ending = "ForSequenceClassification"};
    return names;
  }

  OptionFields options(DataOptions& data, OptionUse use) const override {
    return rerank_fields(data, use);
  }

  const Task& of_head() const override { return classification(); }
  std::vector<const Counter*> counters() const override {
    return reading_counters({&kNoRelevantText});
  }
  bool has_labels() const override { return true; }

  std::optional<HeadParts> parts(const models::EncoderConfig& config) const override {
    return of_head().parts(config);
  }
  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return of_head().make_head(config, weights, dtype);
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels& known) const override {
    const std::size_t classes = known.labels ? known.labels->size() : 1;
    require(classes == 1, {Remedy::new_head}, "model: expected a head of one class, found {}",
            classes);
    auto labels = known.labels ? known.labels->names() : std::vector<std::string>{"LABEL_0"};
    return std::make_unique<RerankSet>(read_rerank_data(path, options),
                                       rerank_task_options(options), std::move(labels));
  }
};

}  // namespace

const Task& reranking() {
  static const Reranking task;
  return task;
}

}  // namespace longformer::tasks
