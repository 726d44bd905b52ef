#include "tasks/embedding/vector_head.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "ops/embedding.h"
#include "ops/row_vectors.h"

namespace longformer::tasks {
namespace {

/// An anchor and its answer, as rows of the vectors of a batch.
struct Pair {
  Index anchor = 0, answer = 0;
  float score = 0;
};

/// The vectors of a batch by what they are for.
struct VectorTable {
  std::vector<const VectorTarget*> targets;
  std::vector<Pair> pairs;
  /// All that are not anchors.
  std::vector<Index> candidates;
  /// For each pair, the other candidates of its example.
  std::vector<std::vector<Index>> negatives;
  /// Those that have a teacher's vector.
  std::vector<Index> taught;

  explicit VectorTable(const Targets& batch) {
    std::size_t row = 0;
    for (const Index rows : batch.questions) {
      const auto first = std::ssize(targets);
      for (const std::size_t end = row + at(rows); row < end; ++row) {
        require(row < batch.documents.size() && batch.documents[row].embedding,
                "loss: expected vectors to learn of every row, found none");
        for (const VectorTarget& one : batch.documents[row].embedding->vectors) {
          targets.push_back(&one);
        }
      }
      add_example(first, std::ssize(targets));
    }
    check_count(row, std::ssize(batch.documents), "rows of examples");
  }

 private:
  void add_example(Index first, Index end) {
    std::vector<Index> own;
    for (Index i = first; i < end; ++i) {
      if (targets[at(i)]->answer < 0) own.push_back(i);
      if (!targets[at(i)]->teacher.empty()) taught.push_back(i);
    }
    candidates.insert(candidates.end(), own.begin(), own.end());
    for (Index i = first; i < end; ++i) {
      const VectorTarget& target = *targets[at(i)];
      if (target.answer < 0) continue;
      const Index answer = first + target.answer;
      require(answer < end && targets[at(answer)]->answer < 0,
              "loss: expected an answer among the {} vectors of the example, found {}", end - first,
              target.answer);
      pairs.push_back({i, answer, target.score});
      negatives.push_back(own);
      std::erase(negatives.back(), answer);
    }
  }
};

/// A part of the loss: its mean, with gradients of `scale` times it.
class VectorLoss {
 public:
  VectorLoss(const ops::Context& context, const Tensor& vectors, const VectorTable& table)
      : context_(context), vectors_(vectors), table_(table) {}

  double contrastive(const EmbeddingTrainingOptions& options, double scale) const {
    const Tensor unit = ops::unit_rows(context_, vectors_);
    std::vector<Index> anchors, answers;
    for (const Pair& pair : table_.pairs) {
      anchors.push_back(pair.anchor);
      answers.push_back(pair.answer);
    }
    const Tensor asking = ops::select_rows(context_, unit, anchors);
    const double share = options.symmetric ? scale / 2 : scale;
    const double forward =
        chosen(asking, {anchors, answers, table_.candidates},
               ops::select_rows(context_, unit, table_.candidates), options.temperature, share);
    if (!options.symmetric) return forward;
    const double backward = chosen(ops::select_rows(context_, unit, answers),
                                   {answers, anchors, anchors}, asking, options.temperature, share);
    return (forward + backward) / 2;
  }

  double triplet(double margin, double scale) const {
    std::vector<ops::Triplet> triplets;
    for (std::size_t i = 0; i < table_.pairs.size(); ++i) {
      const Pair& pair = table_.pairs[i];
      for (const Index negative : table_.negatives[i]) {
        triplets.push_back({pair.anchor, pair.answer, negative});
      }
    }
    const auto count = static_cast<double>(triplets.size());
    if (triplets.empty()) return 0;
    return ops::triplet_loss(context_, vectors_, triplets, margin, {.scale = scale / count}).sum /
           count;
  }

  double cosine(double scale) const {
    const Tensor unit = ops::unit_rows(context_, vectors_);
    std::vector<Index> anchors, answers;
    std::vector<float> scores;
    for (const Pair& pair : table_.pairs) {
      if (std::isnan(pair.score)) continue;
      anchors.push_back(pair.anchor);
      answers.push_back(pair.answer);
      scores.push_back(pair.score);
    }
    if (scores.empty()) return 0;
    const auto count = static_cast<double>(scores.size());
    const Tensor cosines = ops::row_dots(context_, ops::select_rows(context_, unit, anchors),
                                         ops::select_rows(context_, unit, answers));
    return ops::squared_error(context_, cosines, scores, {.scale = scale / count}).sum / count;
  }

  double distillation(double scale) const {
    std::vector<float> right;
    for (const Index i : table_.taught) {
      const std::vector<float>& teacher = table_.targets[at(i)]->teacher;
      require(std::ssize(teacher) == vectors_.columns(),
              "teacher: expected vectors of {} numbers, as the model makes, found {}",
              vectors_.columns(), teacher.size());
      right.insert(right.end(), teacher.begin(), teacher.end());
    }
    const auto count = static_cast<double>(right.size());
    return ops::squared_error(context_, ops::select_rows(context_, vectors_, table_.taught), right,
                              {.scale = scale / count})
               .sum /
           count;
  }

 private:
  /// Rows of the vectors: what asks, what is right, and among which it is to be found.
  struct Choice {
    const std::vector<Index>&asking, &right, &among;
  };

  /// Mean cross-entropy of what is right among all, without what is as right: the same text, or
  /// what belongs to the same text.
  double chosen(const Tensor& asking, const Choice& choice, const Tensor& among, double temperature,
                double scale) const {
    std::set<std::pair<std::uint64_t, Index>> known;
    for (std::size_t i = 0; i < choice.right.size(); ++i) {
      known.insert({text(choice.asking[i]), choice.right[i]});
    }
    std::vector<std::int32_t> labels;
    std::vector<ops::ExcludedPair> excluded;
    for (std::size_t i = 0; i < choice.right.size(); ++i) {
      const Index right = choice.right[i];
      for (Index c = 0; c < std::ssize(choice.among); ++c) {
        const Index candidate = choice.among[at(c)];
        if (candidate == right) {
          labels.push_back(static_cast<std::int32_t>(c));
        } else if (text(candidate) == text(right) ||
                   known.contains({text(choice.asking[i]), candidate})) {
          excluded.emplace_back(static_cast<Index>(i), c);
        }
      }
    }
    const Tensor logits =
        ops::row_products(context_, asking, among, static_cast<float>(1 / temperature), excluded);
    const auto count = static_cast<double>(labels.size());
    return ops::cross_entropy(context_, logits, labels, {.scale = scale / count}).sum / count;
  }

  std::uint64_t text(Index vector) const { return table_.targets[at(vector)]->text; }

  const ops::Context& context_;
  const Tensor& vectors_;
  const VectorTable& table_;
};

}  // namespace

Tensor VectorHead::logits(const ops::Context&, const EncoderStates&) const {
  fail("logits: expected a head that tells something of documents, found vectors of texts");
}

Tensor VectorHead::vectors(const ops::Context& context, const EncoderStates& states,
                           const Targets& targets) const {
  check_count(targets.documents.size(), states.batch.documents(), "rows with targets");
  std::vector<ops::RowRange> ranges;
  const EmbeddingTarget* how = nullptr;
  for (std::size_t row = 0; row < targets.documents.size(); ++row) {
    const auto& target = targets.documents[row].embedding;
    require(target.has_value(), "loss: expected vectors to learn of every row, found none");
    require(
        how == nullptr || how->divides_by_root == target->divides_by_root,
        "loss: expected one way of pooling in a batch, found passages of documents beside texts "
        "of which the sum is divided by a root");
    how = &*target;
    const Index begin = states.batch.starts[row], end = states.batch.starts[row + 1];
    for (const VectorTarget& one : target->vectors) {
      require(0 <= one.begin && one.begin < one.end && begin + one.end <= end,
              "loss: expected vectors of the row's {} tokens, found {} to {}", end - begin,
              one.begin, one.end);
      ranges.push_back({begin + one.begin, begin + one.end});
    }
  }
  require(!ranges.empty(), "loss: expected vectors to learn, found none");
  const auto divisor = how->divides_by_root ? ops::RowDivisor::root : ops::RowDivisor::count;
  const Tensor pooled = how->takes_largest
                            ? ops::max_rows(context, states.hidden, ranges)
                            : ops::mean_rows(context, states.hidden, ranges, divisor);
  return how->normalizes ? ops::unit_rows(context, pooled) : pooled;
}

ops::LossSum VectorHead::loss_of(const ops::Context& context, const Tensor& vectors,
                                 const Targets& targets, const HeadLossOptions& options) const {
  const VectorTable table(targets);
  check_count(table.targets.size(), vectors.rows(), "vectors");
  const EmbeddingTarget& how = *targets.documents.front().embedding;
  const VectorLoss loss(context, vectors, table);
  double sum = 0;
  if (!table.pairs.empty()) {
    switch (how.loss) {
      case EmbeddingLoss::contrastive:
        sum += loss.contrastive(how.options, options.scale);
        break;
      case EmbeddingLoss::triplet:
        sum += loss.triplet(how.options.margin, options.scale);
        break;
      case EmbeddingLoss::cosine:
        sum += loss.cosine(options.scale);
        break;
      case EmbeddingLoss::distillation:
        break;
    }
  }
  if (!table.taught.empty()) {
    const bool alone = how.loss == EmbeddingLoss::distillation;
    const double weight = alone ? 1 : how.options.distillation_weight;
    sum += weight * loss.distillation(options.scale * weight);
  }
  return {.sum = sum, .weight = 1};
}

}  // namespace longformer::tasks
