#include "tasks/embedding/embedding_evaluation.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "engine/frame/metrics.h"
#include "engine/frame/text_vectors.h"
#include "engine/reading/prompted_text.h"
#include "tasks/embedding/embedding_reader.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

using Vector = std::vector<float>;

constexpr std::size_t kFewest = 10;

/// Texts to search: single texts once each, passages once per occurrence in a document, because
/// equal words have other vectors there.
class SearchedTexts {
 public:
  /// Vectors for the cosine have length 1, so that it is their dot product.
  explicit SearchedTexts(Similarity kind)
      : kind_(kind == Similarity::cosine ? Similarity::dot : kind) {}

  std::size_t add_text(const std::string& text, Vector vector) {
    const auto [place, is_new] = places_.emplace(fnv1a(text), vectors_.size());
    return is_new ? add(place->first, std::move(vector)) : place->second;
  }
  std::size_t add_passage(const std::string& text, Vector vector) {
    return add(fnv1a(text), std::move(vector));
  }
  float near(const Vector& vector, std::size_t place) const {
    return similarity(kind_, vector, vectors_[place]);
  }
  std::uint64_t text(std::size_t place) const { return texts_[place]; }
  /// How many are nearer than the nearest of those with one of the right texts.
  std::size_t rank(const Vector& vector, const std::set<std::uint64_t>& right) const {
    std::vector<float> others;
    float best = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < vectors_.size(); ++i) {
      if (right.contains(texts_[i])) {
        best = std::max(best, near(vector, i));
      } else {
        others.push_back(near(vector, i));
      }
    }
    return static_cast<std::size_t>(
        std::ranges::count_if(others, [best](float other) { return other > best; }));
  }

 private:
  std::size_t add(std::uint64_t text, Vector vector) {
    texts_.push_back(text);
    vectors_.push_back(std::move(vector));
    return vectors_.size() - 1;
  }

  Similarity kind_;
  std::map<std::uint64_t, std::size_t> places_;
  std::vector<std::uint64_t> texts_;
  std::vector<Vector> vectors_;
};

/// A text that asks, and the candidates of its example.
struct AskingText {
  const EmbeddingExample* example;
  std::string text;
  Vector vector;
  std::size_t right = 0;
  std::vector<std::size_t> negatives = {};
};

class VectorComparison {
 public:
  VectorComparison(const EmbeddingData& data, EvaluationRun& run)
      : data_(data),
        run_(run),
        kind_(run.options.vectors->similarity()),
        name_(name_of(kind_)),
        searched_(kind_) {}

  void compare() {
    for (std::size_t i = 0; i < data_.examples.size(); ++i) read(i);
    rank();
    run_.finish();
    if (!scores_.empty()) {
      const RegressionMetrics found = regression_metrics(found_, scores_);
      run_.add("spearman", found.spearman);
      run_.add("pearson", found.pearson);
    }
    if (!asking_.empty()) {
      const auto count = static_cast<double>(asking_.size());
      run_.add("recall_at_1", first_ / count);
      run_.add("recall_at_10", among_ten_ / count);
      run_.add("mrr_at_10", reciprocal_ / count);
    }
    if (triplets_ > 0) run_.add("triplet_accuracy", nearer_ / triplets_);
    if (taught_ > 0) run_.add("teacher_cosine", taught_cosine_ / taught_);
  }

 private:
  /// Makes the vectors of an example. What asks is ranked when all candidates are there.
  void read(std::size_t number) {
    const EmbeddingExample& example = data_.examples[number];
    std::vector<AskingText> asking;
    const Document document = read_document([&] {
      lengths_ = {};
      take_known(number);
      if (example.passages) {
        read_passages(example, asking);
      } else if (example.score || example.texts.size() == 1) {
        read_plain(example);
      } else {
        read_pair(example, asking);
      }
      Reading reading;
      reading.tokens = lengths_.tokens;
      reading.truncated = lengths_.truncated;
      return reading;
    });
    if (!asking.empty() && document.error.empty()) {
      run_.read(document.reading);
      std::ranges::move(asking, std::back_inserter(asking_));
      return;
    }
    run_.one(example.origin, document, [&](Json& prediction) {
      if (example.score && !example.passages) {
        prediction["score"] = *example.score;
        prediction[name_] = found_.back();
      }
    });
  }

  /// Takes the vectors of an example from the pass of a training.
  void take_known(std::size_t number) {
    known_passages_.clear();
    known_texts_.clear();
    const auto* kept = run_.kept<ReadVectors>(number);
    if (kept == nullptr || !run_.pass->record(number).has_examples()) return;
    std::vector<Vector> all = run_.pass->vectors(number);
    const auto take = [&](const std::vector<std::size_t>& numbers, std::deque<Vector>& to) {
      for (const std::size_t one : numbers) {
        to.push_back(run_.options.vectors->finished(std::move(all[one])));
      }
    };
    take(kept->passages, known_passages_);
    take(kept->texts, known_texts_);
    lengths_ = kept->lengths;
  }

  std::vector<Vector> vectors_of(std::span<const std::string> texts, TextUse use) {
    if (known_texts_.size() < texts.size()) return run_.options.vectors->of(texts, use, lengths_);
    std::vector<Vector> vectors;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      vectors.push_back(std::move(known_texts_.front()));
      known_texts_.pop_front();
    }
    return vectors;
  }

  void read_plain(const EmbeddingExample& example) {
    const auto vectors = vectors_of(example.texts, TextUse::plain);
    if (example.score) {
      scores_.push_back(*example.score);
      found_.push_back(similarity(kind_, vectors[0], vectors[1]));
    } else {
      teach(vectors[0], example.vector);
    }
  }

  void read_pair(const EmbeddingExample& example, std::vector<AskingText>& asking) {
    const std::span<const std::string> texts(example.texts);
    auto anchor = vectors_of(texts.first(1), TextUse::query);
    auto others = vectors_of(texts.subspan(1), TextUse::document);
    AskingText one = {.example = &example, .text = texts[0], .vector = std::move(anchor[0])};
    one.right = searched_.add_text(texts[1], std::move(others[0]));
    for (std::size_t i = 1; i < others.size(); ++i) {
      one.negatives.push_back(searched_.add_text(texts[i + 1], std::move(others[i])));
    }
    asking.push_back(std::move(one));
  }

  void read_passages(const EmbeddingExample& example, std::vector<AskingText>& asking) {
    const std::string& text = example.texts[0];
    std::vector<CharacterSpan> spans;
    for (const MarkedPassage& passage : *example.passages) spans.push_back(passage.span);
    std::vector<Vector> vectors(std::make_move_iterator(known_passages_.begin()),
                                std::make_move_iterator(known_passages_.end()));
    if (vectors.empty()) vectors = run_.options.vectors->of_passages(text, spans, lengths_);
    std::vector<std::vector<Vector>> queries;
    for (const MarkedPassage& passage : *example.passages) {
      queries.push_back(vectors_of(passage.queries, TextUse::query));
    }
    const auto starts = character_starts(text);
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const MarkedPassage& passage = (*example.passages)[i];
      teach(vectors[i], passage.vector);
      const std::size_t place =
          searched_.add_passage(text_between(text, starts, spans[i]), std::move(vectors[i]));
      for (std::size_t q = 0; q < queries[i].size(); ++q) {
        asking.push_back({.example = &example,
                          .text = passage.queries[q],
                          .vector = std::move(queries[i][q]),
                          .right = place});
      }
    }
  }

  void teach(const Vector& vector, const Vector& teacher) {
    if (teacher.empty()) return;
    require(vector.size() == teacher.size(), OptionName("data.embedding.teacher"),
            "expected vectors of {} numbers, as the model makes, found {}", vector.size(),
            teacher.size());
    taught_cosine_ += similarity(Similarity::cosine, vector, teacher);
    taught_ += 1;
  }

  void rank() {
    std::map<std::string, std::set<std::uint64_t>> right_of;
    for (const AskingText& one : asking_) right_of[one.text].insert(searched_.text(one.right));
    for (const AskingText& one : asking_) {
      const std::size_t rank = searched_.rank(one.vector, right_of[one.text]);
      first_ += rank == 0 ? 1 : 0;
      among_ten_ += rank < kFewest ? 1 : 0;
      reciprocal_ += rank < kFewest ? 1 / static_cast<double>(rank + 1) : 0;
      const float right = searched_.near(one.vector, one.right);
      for (const std::size_t negative : one.negatives) {
        nearer_ += right > searched_.near(one.vector, negative) ? 1 : 0;
        triplets_ += 1;
      }
      run_.answer(one.example->origin, [&](Json& prediction) {
        prediction["anchor"] = one.text;
        prediction["rank"] = rank + 1;
        prediction[name_] = right;
      });
    }
  }

  const EmbeddingData& data_;
  EvaluationRun& run_;
  Similarity kind_;
  std::string name_;
  /// The lengths of the texts of the example that is read.
  TextLengths lengths_;
  /// Its vectors that need not be made.
  std::deque<Vector> known_passages_, known_texts_;
  SearchedTexts searched_;
  std::vector<AskingText> asking_;
  /// The scores of pairs in the data, and the similarities of their vectors.
  std::vector<float> scores_, found_;
  double first_ = 0, among_ten_ = 0, reciprocal_ = 0, nearer_ = 0, triplets_ = 0;
  double taught_ = 0, taught_cosine_ = 0;
};

}  // namespace

std::vector<std::string> embedding_metric_names(const EmbeddingData& data) {
  std::vector<std::string> names;
  if (data.has_scores()) names = {"spearman", "pearson"};
  if (data.has_pairs()) {
    for (const char* name : {"recall_at_1", "recall_at_10", "mrr_at_10"}) names.emplace_back(name);
  }
  const bool has_negatives =
      std::any_of(data.examples.begin(), data.examples.end(),
                  [](const EmbeddingExample& one) { return one.texts.size() > 2; });
  if (has_negatives) names.emplace_back("triplet_accuracy");
  if (data.has_vectors()) names.emplace_back("teacher_cosine");
  return names;
}

void evaluate_embeddings(const EmbeddingData& data, EvaluationRun& run) {
  require(run.options.vectors != nullptr,
          "model: expected one that makes vectors of texts, found none");
  require(!embedding_metric_names(data).empty(),
          "{}: expected texts that belong together, scores, or given vectors to compare with, "
          "found none of them",
          data.path);
  VectorComparison(data, run).compare();
}

}  // namespace longformer::tasks
