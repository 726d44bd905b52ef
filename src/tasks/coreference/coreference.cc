#include "tasks/coreference/coreference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "engine/frame/collation.h"
#include "engine/frame/split.h"
#include "formats/json.h"
#include "models/attention/attention.h"
#include "tasks/coreference/coreference_metrics.h"
#include "tasks/coreference/coreference_run.h"
#include "tasks/coreference/gap/gap.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

/// Published data sets that measure in a form of their own.
std::span<const PublishedData> published_data() {
  static const std::array rows = {gap_published()};
  return rows;
}

constexpr const char* kTellingLayer = "antecedent_s2s_classifier.weight";

constexpr CountSentence kAreWide = {.one = "{n} mention has too many words to be found",
                                    .many = "{n} mentions have too many words to be found"};
constexpr CountSentence kAreRepeated = {
    .one = "{n} mention is in a second cluster, which does not count",
    .many = "{n} mentions are in a second cluster, which does not count"};

constexpr Counter kWideMentions = {.name = "wide_mentions",
                                   .meaning = "mentions of more words than the head takes for one",
                                   .evaluation = kAreWide,
                                   .training = kAreWide,
                                   .scope = CountScope::parts,
                                   .is_of_model = true};
constexpr Counter kRepeatedMentions = {
    .name = "repeated_mentions",
    .meaning = "mentions that are in a second cluster, which does not count",
    .evaluation = kAreRepeated,
    .training = kAreRepeated,
    .scope = CountScope::parts};

/// Configuration of a new head.
CoreferenceConfig new_head(const CoreferenceOptions& options, const CoreferenceData& data,
                           Index hidden_size) {
  const bool singletons = data.singletons > 0;
  const bool has_sentences =
      std::any_of(data.examples.begin(), data.examples.end(),
                  [](const CoreferenceExample& one) { return !one.words.sentences.empty(); });
  CoreferenceConfig head;
  head.max_span_width = options.max_span_width;
  head.top_lambda = options.top_lambda > 0 ? options.top_lambda : singletons ? 0.3 : 0.4;
  head.head_size = options.head_size > 0 ? options.head_size : 2 * hidden_size;
  head.dropout = options.dropout;
  // These scales make the scores begin near 0 for every width; without them the first loss is in
  // the hundreds.
  head.mention_scale = 1 / std::sqrt(static_cast<double>(head.head_size));
  head.antecedent_scale = 1 / std::sqrt(2 * static_cast<double>(head.head_size));
  head.mention_loss = options.mention_loss;
  head.max_segment_tokens = options.max_segment_tokens;
  head.segments = segments_named(options.segments, CoreferenceSegments::overlapping);
  head.singletons = singletons;
  head.same_sentence = has_sentences;
  return head;
}

/// Mentions of more words than the head takes for one.
std::int64_t wide_mentions(const CoreferenceExample& example, Index most) {
  std::int64_t wide = 0;
  for (const WordCluster& cluster : example.clusters) {
    wide += std::count_if(cluster.begin(), cluster.end(), [&](const WordSpan& mention) {
      return mention.last - mention.first >= most;
    });
  }
  return wide;
}

/// Documents whole; in a training of longer ones another run of sentences in every epoch.
class CoreferenceRows final : public CollatedExamples {
 public:
  CoreferenceRows(const CoreferenceData& data, const CollationSetup& setup)
      : CollatedExamples(setup, data.report),
        config_(coreference_config(setup.config)),
        reader_(setup.tokenizer, setup.reading, setup.data.coreference, config_),
        most_tokens_(setup.data.coreference.max_training_tokens) {
    for (const CoreferenceExample& record : data.examples) {
      add(place_of(data.path, record.origin), setup.data, [&](Collator& rows) {
        CoreferenceReading reading = reader_.read(record.words);
        rows.report().counts[kUnreadWords] += reading.unread_words;
        rows.report().counts[kWideMentions] += wide_mentions(record, config_.max_span_width);
        rows.report().counts[kRepeatedMentions] += record.repeated_spans;
        sources_.push_back(reading.words.tokens > most_tokens_ ? record : CoreferenceExample());
        Example one = with_target(rows.example_of(reading.reading), reading.words, record.clusters);
        reading.reading = std::move(reading.reading).counts();
        rows.keep(std::move(reading));
        return std::vector<Example>{std::move(one)};
      });
    }
  }

 private:
  static Example with_target(Example example, const CoreferenceTarget& words,
                             const std::vector<WordCluster>& clusters) {
    example.targets[0].coreference = words;
    example.targets[0].coreference->clusters = clusters;
    return example;
  }

  Example example(Index index, const Epoch& epoch) const override {
    const CoreferenceExample& source = sources_[at(index)];
    if (epoch.number == kUnchanged.number || source.words.words.empty()) {
      return CollatedExamples::example(index, epoch);
    }
    const std::uint64_t seed =
        random_bits(random_bits(epoch.seed, static_cast<std::uint64_t>(epoch.number)), at(index));
    const CoreferenceExample part = part_of(source, run_of(source.words, seed));
    CoreferenceReading reading = reader_.read(part.words);
    return with_target(one_example(reading.reading), reading.words, part.clusters);
  }

  /// The whole sentences that fit, from a first one that the seed picks among those followed by
  /// enough text; at least one sentence.
  TokenRange run_of(const CoreferenceWords& words, std::uint64_t seed) const {
    const std::vector<Index> tokens = reader_.sentence_tokens(words);
    const std::vector<TokenRange> sentences = sentences_of(words);
    std::size_t last_start = tokens.size();
    for (Index sum = 0; last_start > 0 && sum < most_tokens_;) sum += tokens[--last_start];
    const std::size_t first = random_bits(seed, 0) % (last_start + 1);
    std::size_t end = first;
    for (Index sum = 0; end < tokens.size(); ++end) {
      sum += tokens[end];
      if (sum > most_tokens_ && end > first) break;
    }
    return {sentences[first].begin, sentences[end - 1].end};
  }

  CoreferenceConfig config_;
  CoreferenceReader reader_;
  Index most_tokens_;
  /// Those that are longer than a step takes; others are empty.
  std::vector<CoreferenceExample> sources_;
};

/// How many of the right mentions were kept for linking.
struct Recall {
  std::int64_t found = 0, all = 0;

  void add(const std::vector<WordCluster>& clusters, const std::vector<WordSpan>& kept) {
    const std::set<WordSpan> known(kept.begin(), kept.end());
    for (const WordCluster& cluster : clusters) {
      for (const WordSpan& mention : cluster) found += known.contains(mention) ? 1 : 0;
      all += std::ssize(cluster);
    }
  }
  double value() const {
    return all > 0 ? static_cast<double>(found) / static_cast<double>(all) : 0;
  }
};

Json as_json(const std::vector<WordCluster>& clusters) {
  Json all = Json::array();
  for (const WordCluster& cluster : clusters) {
    Json mentions = Json::array();
    for (const WordSpan& mention : cluster) mentions.push_back({mention.first, mention.last});
    all.push_back(std::move(mentions));
  }
  return all;
}

using DocumentsByKey = std::map<std::string, const CoreferenceExample*>;

/// Throws Error for two documents of one key.
DocumentsByKey by_key(const std::string& path, const CoreferenceData& data) {
  DocumentsByKey documents;
  for (const CoreferenceExample& one : data.examples) {
    require(documents.emplace(conll_key(one.origin.id), &one).second,
            "{}: expected each document once, found another one of this name",
            place_of(path, one.origin));
  }
  return documents;
}

/// Throws Error that begins with `place` for predictions of other words than those of the document.
void check_words_of(const std::string& place, const CoreferenceExample& predicted,
                    const CoreferenceExample& document) {
  const Index words = std::ssize(document.words.words);
  const Index found = std::ssize(predicted.words.words);
  require(found == 0 || found == words, "{}: expected {} words, found {}", place, words, found);
  for (const WordCluster& cluster : predicted.clusters) {
    for (const WordSpan& mention : cluster) {
      require(mention.last < words, "{}: expected mentions among {} words, found [{}, {}]", place,
              words, mention.first, mention.last);
    }
  }
}

class CoreferenceSet final : public DataSet {
 public:
  CoreferenceSet(CoreferenceData data, const CoreferenceOptions& options)
      : data_(std::move(data)), options_(options) {}

  bool has_one_class() const override { return false; }

  Json settings(const models::EncoderConfig& config) const override {
    return {{kCoreferenceKey, json_of(new_head(options_, data_, config.last_size()))}};
  }

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override {
    std::vector<std::string> names;
    for (const auto& [name, value] : named(CoreferenceScores())) names.push_back(name);
    names.emplace_back("pruning_recall");
    return names;
  }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples, [](const auto& one) {
      // The parts of a document of CoNLL-2012: "(NAME); part 000".
      const std::string& id = one.origin.id;
      return std::vector{split_key("id", id.substr(0, id.rfind("; part ")))};
    });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    auto part = engine::split_off(*this, &CoreferenceSet::data_, examples);
    for (CoreferenceSet* one : {this, part.get()}) count_examples(one->data_);
    return part;
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    return std::make_unique<CoreferenceRows>(data_, setup);
  }

  void evaluate(EvaluationRun& run) const override {
    CoreferenceCounter counter;
    Recall recall;
    const Index widest = coreference_config(run.model.config()).max_span_width;
    const auto words_of = [](const CoreferenceExample& example) { return example.words; };
    const auto score = [&](const CoreferenceExample& example, const ResolvedWords& resolved,
                           Json& prediction) {
      const std::vector<WordCluster>& clusters = resolved.found.clusters;
      counter.add(example.clusters, clusters, options_.without_singletons);
      recall.add(example.clusters, resolved.found.kept);
      run.result.counts[kWideMentions] += wide_mentions(example, widest);
      run.result.counts[kRepeatedMentions] += example.repeated_spans;
      prediction["doc_key"] = example.origin.id;
      prediction["clusters"] = as_json(clusters);
      if (run.publishes()) run.publish(conll_text(example, clusters));
    };
    resolve_each(run, options_, data_.examples, words_of, score,
                 [&](const CoreferenceExample& example) {
                   counter.add(example.clusters, {}, options_.without_singletons);
                   recall.add(example.clusters, {});
                 });
    for (const auto& [name, value] : named(counter.scores())) run.add(name, value);
    run.add("pruning_recall", recall.value());
  }

  bool has_published_form() const override { return true; }

  void score(const std::string& predictions, Evaluation& result) const override {
    const CoreferenceData predicted = read_coreference(predictions, {}, {.words = false});
    const auto predicted_of = by_key(predictions, predicted);
    CoreferenceCounter counter;
    by_key(data_.path, data_);
    for (const CoreferenceExample& example : data_.examples) {
      const auto found = predicted_of.find(conll_key(example.origin.id));
      std::vector<WordCluster> clusters;
      if (found == predicted_of.end()) {
        ++result.counts[kMissing];
      } else {
        check_words_of(place_of(predictions, found->second->origin), *found->second, example);
        clusters = found->second->clusters;
      }
      counter.add(example.clusters, clusters, options_.without_singletons);
    }
    result.counts[kRepeatedMentions] = data_.repeated_spans;
    result.examples = std::ssize(data_.examples);
    for (const auto& [name, value] : named(counter.scores())) {
      result.metrics.emplace_back(name, value);
    }
  }

 private:
  CoreferenceData data_;
  CoreferenceOptions options_;
};

class Coreference final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {.head = "coreference",
                                        .verb = "coreference",
                                        .class_ending = "ForCoreference",
                                        .other_class = "FCorefModel"};
    return names;
  }

  OptionFields options(DataOptions& data, OptionUse use) const override {
    return coreference_fields(data.coreference, use);
  }

  std::optional<HeadParts> parts(const models::EncoderConfig&) const override { return {}; }

  std::vector<std::string> kept_layers() const override { return coreference_layers(); }

  bool is_present(const models::EncoderConfig&, const models::Weights& weights) const override {
    return weights.has(kTellingLayer);
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return std::make_unique<CoreferenceHead>(config, models::layer_source(config, weights, dtype));
  }

  std::span<const std::string> marks() const override { return kSpeakerMarks; }
  std::vector<const Counter*> counters() const override {
    return official_counters({&kUnreadWords, &kWideMentions, &kRepeatedMentions});
  }

  PublishedForm published_form() const override {
    PublishedForm form = {.name = "CoNLL-2012 (.conll)", .endings = {".conll"}};
    for (const PublishedData& one : published_data()) {
      form.name += fmt::format(", or of {}", one.name);
      form.endings.emplace_back(one.ending);
    }
    return form;
  }

  std::string_view settings_key() const override { return kCoreferenceKey; }
  std::string unused_settings(const models::EncoderConfig& config) const override {
    return unused_coreference_keys(config);
  }

  HeadCost head_cost(const models::EncoderConfig& config, Index tokens) const override {
    return coreference_cost(config, tokens);
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    const std::string beginning = read_beginning(path, options, kTellingBytes);
    for (const PublishedData& one : published_data()) {
      if (one.recognises(beginning)) return one.read(path, options);
    }
    return std::make_unique<CoreferenceSet>(read_coreference(path, options), options.coreference);
  }

  bool recognises(std::string_view beginning) const override {
    return beginning.starts_with("#begin document") ||
           beginning.find("\"clusters\"") != std::string_view::npos ||
           std::ranges::any_of(published_data(),
                               [&](const PublishedData& one) { return one.recognises(beginning); });
  }
};

}  // namespace

const Task& coreference() {
  static const Coreference task;
  return task;
}

}  // namespace longformer::tasks
