#include "tasks/coreference/gap/gap.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "tasks/coreference/coreference.h"
#include "tasks/coreference/coreference_run.h"
#include "tasks/coreference/gap/gap_data.h"
#include "tasks/coreference/gap/gap_metrics.h"

namespace longformer::tasks {
namespace {

/// Whether one of them lies in the other.
bool nested(const CharacterSpan& x, const CharacterSpan& y) {
  return (x.begin <= y.begin && y.end <= x.end) || (y.begin <= x.begin && x.end <= y.end);
}

/// Cluster of exactly the pronoun.
GapAnswer answer_of(const GapExample& example, const std::vector<WordCluster>& clusters,
                    const std::vector<CharacterSpan>& words) {
  const auto characters = [&](const WordSpan& span) {
    return CharacterSpan{words[at(span.first)].begin, words[at(span.last)].end};
  };
  for (const WordCluster& cluster : clusters) {
    const auto has = [&](const auto& fits) {
      return std::any_of(cluster.begin(), cluster.end(),
                         [&](const WordSpan& mention) { return fits(characters(mention)); });
    };
    const CharacterSpan& pronoun = example.pronoun;
    const bool is_its = has([&](const CharacterSpan& span) {
      return span.begin == pronoun.begin && span.end == pronoun.end;
    });
    if (!is_its) continue;
    return {has([&](const CharacterSpan& span) { return nested(span, example.a); }),
            has([&](const CharacterSpan& span) { return nested(span, example.b); })};
  }
  return {};
}

class GapSet final : public DataSet {
 public:
  GapSet(GapData data, const CoreferenceOptions& options)
      : data_(std::move(data)), options_(options) {}

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override {
    std::vector<std::string> names;
    for (const auto& [name, value] : GapCounter().scores()) names.push_back(name);
    return names;
  }

  Json settings(const models::EncoderConfig&) const override { refuse_training(); }
  std::unique_ptr<TrainingSet> collate(const CollationSetup&) const override { refuse_training(); }

  void evaluate(EvaluationRun& run) const override {
    GapCounter counter;
    std::vector<CharacterSpan> words;
    const auto words_of = [&](const GapExample& example) {
      TextWords text = words_of_text(example.text);
      words = std::move(text.characters);
      return std::move(text.words);
    };
    resolve_each(
        run, options_, data_.examples, words_of,
        [&](const GapExample& example, const ResolvedWords& resolved, Json& prediction) {
          const GapAnswer found = answer_of(example, resolved.found.clusters, words);
          counter.add(example, found);
          prediction["a_coref"] = example.right.a;
          prediction["b_coref"] = example.right.b;
          prediction["predicted_a_coref"] = found.a;
          prediction["predicted_b_coref"] = found.b;
          run.publish(gap_line(example.origin.id, found));
        },
        [&](const GapExample& example) { counter.add(example, std::nullopt); });
    for (const auto& [name, value] : counter.scores()) run.add(name, value);
  }

  bool has_published_form() const override { return true; }

  void score(const std::string& predictions, Evaluation& result) const override {
    const GapAnswers answers = read_gap_answers(predictions);
    GapCounter counter;
    for (const GapExample& example : data_.examples) {
      const auto found = answers.find(example.origin.id);
      const bool is_missing = found == answers.end();
      result.counts[kMissing] += is_missing ? 1 : 0;
      counter.add(example, is_missing ? std::nullopt : std::optional(found->second));
    }
    result.examples = std::ssize(data_.examples);
    result.metrics = counter.scores();
  }

 private:
  [[noreturn]] void refuse_training() const {
    fail("{}: expected documents with clusters to learn from, found GAP, which measures",
         data_.path);
  }

  GapData data_;
  CoreferenceOptions options_;
};

std::unique_ptr<DataSet> read_set(const std::string& path, const DataOptions& options) {
  return std::make_unique<GapSet>(read_gap(path, options), options.coreference);
}

}  // namespace

PublishedData gap_published() {
  return {.recognises = is_gap, .read = read_set, .name = "GAP .tsv", .ending = ".tsv"};
}

}  // namespace longformer::tasks
