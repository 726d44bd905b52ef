#include "tasks/coreference/coreference_metrics.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tasks/coreference/assignment.h"

namespace longformer::tasks {
namespace {

double square(double x) { return x * x; }
/// Pairs of mentions of a cluster.
double links(double mentions) { return mentions * (mentions - 1) / 2; }

std::vector<WordCluster> clusters_that_count(std::span<const WordCluster> clusters,
                                             bool without_singletons) {
  std::set<WordSpan> seen;
  std::vector<WordCluster> result;
  for (const WordCluster& cluster : clusters) {
    WordCluster kept;
    for (const WordSpan& mention : cluster) {
      if (seen.insert(mention).second) kept.push_back(mention);
    }
    if (kept.size() > (without_singletons ? 1 : 0)) result.push_back(std::move(kept));
  }
  return result;
}

/// Clusters of both sides that share mentions, directly or by others.
struct Component {
  std::vector<Index> key, response;
};

/// The sum of φ4 = 2·|K ∩ R| ÷ (|K| + |R|) over the best one-to-one map of clusters.
double best_similarity(const std::vector<std::map<std::size_t, Index>>& common,
                       const std::vector<double>& sizes, const std::vector<double>& other_sizes) {
  std::vector<Index> parent(sizes.size() + other_sizes.size());
  std::iota(parent.begin(), parent.end(), Index{0});
  const auto root = [&](Index node) {
    while (parent[at(node)] != node) node = parent[at(node)] = parent[at(parent[at(node)])];
    return node;
  };
  const auto node_of = [&](std::size_t other) { return static_cast<Index>(sizes.size() + other); };
  for (std::size_t k = 0; k < common.size(); ++k) {
    for (const auto& [other, count] : common[k]) {
      parent[at(root(static_cast<Index>(k)))] = root(node_of(other));
    }
  }
  std::map<Index, Component> components;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    components[root(static_cast<Index>(k))].key.push_back(static_cast<Index>(k));
  }
  for (std::size_t r = 0; r < other_sizes.size(); ++r) {
    components[root(node_of(r))].response.push_back(static_cast<Index>(r));
  }
  double sum = 0;
  for (const auto& [name, component] : components) {
    if (component.key.empty() || component.response.empty()) continue;
    std::vector<double> gains;
    for (const Index k : component.key) {
      for (const Index r : component.response) {
        const auto found = common[at(k)].find(at(r));
        const double shared = found == common[at(k)].end() ? 0 : static_cast<double>(found->second);
        gains.push_back(2 * shared / (sizes[at(k)] + other_sizes[at(r)]));
      }
    }
    const Index columns = std::ssize(component.response);
    const auto chosen = best_assignment(gains, std::ssize(component.key), columns);
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      if (chosen[k] >= 0) sum += gains[k * component.response.size() + at(chosen[k])];
    }
  }
  return sum;
}

}  // namespace

/// Clusters of one side, and what each shares with those of the other.
struct CoreferenceCounter::Compared {
  std::vector<double> sizes;
  /// How many mentions each cluster has in common with a cluster of the other side.
  std::vector<std::map<std::size_t, Index>> common;

  Compared(const std::vector<WordCluster>& own, const std::vector<WordCluster>& other) {
    std::map<WordSpan, std::size_t> cluster_of;
    for (std::size_t i = 0; i < other.size(); ++i) {
      for (const WordSpan& mention : other[i]) cluster_of[mention] = i;
    }
    for (const WordCluster& cluster : own) {
      sizes.push_back(static_cast<double>(cluster.size()));
      auto& shared = common.emplace_back();
      for (const WordSpan& mention : cluster) {
        const auto found = cluster_of.find(mention);
        if (found != cluster_of.end()) ++shared[found->second];
      }
    }
  }
};

double CoreferenceScore::f1() const {
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

double CoreferenceScores::conll_f1() const { return (muc.f1() + b_cubed.f1() + ceaf_e.f1()) / 3; }

void CoreferenceCounter::count(const Compared& own, const Compared& other, Side& side) {
  for (std::size_t i = 0; i < own.sizes.size(); ++i) {
    const double size = own.sizes[i];
    double shared = 0, squares = 0, found_links = 0;
    for (const auto& [cluster, number] : own.common[i]) {
      const auto count = static_cast<double>(number);
      shared += count;
      squares += square(count);
      found_links += links(count);
      // A cluster of one has one link, to itself.
      if (size == 1 && other.sizes[cluster] == 1) found_links += 1;
    }
    // Each mention that the other side does not have is a part of its own.
    const double parts = static_cast<double>(own.common[i].size()) + size - shared;
    side.mentions.numerator += shared;
    side.mentions.denominator += size;
    side.muc.numerator += size - parts;
    side.muc.denominator += size - 1;
    side.b_cubed.numerator += squares / size;
    side.b_cubed.denominator += size;
    side.lea.numerator += size * found_links / (size == 1 ? 1 : links(size));
    side.lea.denominator += size;
  }
  side.ceaf_e.denominator += static_cast<double>(own.sizes.size());
}

void CoreferenceCounter::add(std::span<const WordCluster> key,
                             std::span<const WordCluster> response, bool without_singletons) {
  const std::vector<WordCluster> right = clusters_that_count(key, without_singletons);
  const std::vector<WordCluster> found = clusters_that_count(response, without_singletons);
  const Compared own(right, found), other(found, right);
  count(own, other, recall_);
  count(other, own, precision_);
  const double similarity = best_similarity(own.common, own.sizes, other.sizes);
  recall_.ceaf_e.numerator += similarity;
  precision_.ceaf_e.numerator += similarity;
}

CoreferenceScore CoreferenceCounter::score_of(const Ratio& recall, const Ratio& precision) {
  return {.precision = precision.value(), .recall = recall.value()};
}

CoreferenceScores CoreferenceCounter::scores() const {
  return {.mentions = score_of(recall_.mentions, precision_.mentions),
          .muc = score_of(recall_.muc, precision_.muc),
          .b_cubed = score_of(recall_.b_cubed, precision_.b_cubed),
          .ceaf_e = score_of(recall_.ceaf_e, precision_.ceaf_e),
          .lea = score_of(recall_.lea, precision_.lea)};
}

std::vector<std::pair<std::string, double>> named(const CoreferenceScores& scores) {
  std::vector<std::pair<std::string, double>> all = {{"conll_f1", scores.conll_f1()}};
  const auto add = [&](const std::string& name, const CoreferenceScore& score) {
    all.emplace_back(name + "_f1", score.f1());
    all.emplace_back(name + "_precision", score.precision);
    all.emplace_back(name + "_recall", score.recall);
  };
  add("mentions", scores.mentions);
  add("muc", scores.muc);
  add("b_cubed", scores.b_cubed);
  add("ceaf_e", scores.ceaf_e);
  add("lea", scores.lea);
  return all;
}

}  // namespace longformer::tasks
