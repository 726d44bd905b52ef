// Metrics of coreference: the published test cases of the reference scorer
// (tests/fixtures/make_coreference_metrics.py), and its definitions written down once more, with
// every one-to-one map of clusters tried.
#include "tasks/coreference/coreference_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/random.h"
#include "fixtures.h"
#include "formats/json.h"
#include "tasks/coreference/assignment.h"

namespace longformer::tasks::coreference_metrics_test {
namespace {

using Clusters = std::vector<WordCluster>;

/// A cluster for each text, a mention for each of its letters.
Clusters clusters_of(const std::vector<std::string>& texts) {
  Clusters clusters;
  for (const std::string& text : texts) {
    WordCluster& cluster = clusters.emplace_back();
    for (const char letter : text) cluster.push_back({letter, letter + 1});
  }
  return clusters;
}

CoreferenceScores scores_of(const Clusters& key, const Clusters& response, bool bare = false) {
  CoreferenceCounter counter;
  counter.add(key, response, bare);
  return counter.scores();
}

std::map<std::string, CoreferenceScore> by_name(const CoreferenceScores& scores) {
  return {{"mentions", scores.mentions},
          {"muc", scores.muc},
          {"b_cubed", scores.b_cubed},
          {"ceaf_e", scores.ceaf_e},
          {"lea", scores.lea}};
}

TEST(CoreferenceMetrics, EqualThePublishedCasesOfTheReferenceScorer) {
  const auto file = fixtures_folder() / "coreference_metrics" / "cases.json";
  const auto cases = formats::read_json(file.string());
  EXPECT_EQ(cases.size(), 36u);
  std::size_t compared = 0;
  for (const auto& one : cases) {
    const auto scores = by_name(scores_of(clusters_of(one["key"]), clusters_of(one["response"])));
    for (const auto& [metric, expected] : one["metrics"].items()) {
      const CoreferenceScore& found = scores.at(metric);
      // CEAF is published to five digits.
      const double tolerance = metric == "ceaf_e" ? 5.1e-6 : 1e-12;
      const std::vector<double> values = {found.recall, found.precision, found.f1()};
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(std::abs(values[i] - expected[i].get<double>()) <= tolerance)
            << one["name"] << " " << metric << " " << values[i] << ", expected " << expected;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 276u);
}

// ---- definitions, pair by pair ----

Index common(const WordCluster& x, const WordCluster& y) {
  return std::count_if(x.begin(), x.end(), [&](const WordSpan& mention) {
    return std::find(y.begin(), y.end(), mention) != y.end();
  });
}

bool together(const Clusters& clusters, const WordSpan& x, const WordSpan& y) {
  return std::any_of(clusters.begin(), clusters.end(), [&](const WordCluster& cluster) {
    return common({x}, cluster) > 0 && common({y}, cluster) > 0;
  });
}

double total(const Clusters& clusters) {
  return std::accumulate(clusters.begin(), clusters.end(), 0.0, [](double sum, const auto& one) {
    return sum + static_cast<double>(one.size());
  });
}

/// The numerators of recall; those of precision with the sides swapped.
struct Numerators {
  double mentions = 0, muc = 0, b_cubed = 0, lea = 0;

  Numerators(const Clusters& key, const Clusters& response) {
    for (const WordCluster& cluster : key) {
      // Links that remain when the cluster is cut into parts: each mention joins a part or is one.
      std::vector<WordCluster> parts;
      double pairs = 0;
      for (std::size_t i = 0; i < cluster.size(); ++i) {
        const auto same = [&](const WordCluster& part) {
          return together(response, part[0], cluster[i]);
        };
        const auto part = std::find_if(parts.begin(), parts.end(), same);
        if (part == parts.end()) parts.push_back({cluster[i]});
        mentions += together(response, cluster[i], cluster[i]) ? 1 : 0;
        for (std::size_t j = 0; j < i; ++j) pairs += together(response, cluster[i], cluster[j]);
        for (const WordCluster& other : response) {
          if (common({cluster[i]}, other) == 0) continue;
          b_cubed += static_cast<double>(common(cluster, other)) / size_of(cluster);
        }
      }
      muc += size_of(cluster) - static_cast<double>(parts.size());
      if (cluster.size() == 1) {
        const auto same = [&](const WordCluster& other) { return other == cluster; };
        lea += std::any_of(response.begin(), response.end(), same) ? 1 : 0;
      } else {
        lea += size_of(cluster) * pairs / (size_of(cluster) * (size_of(cluster) - 1) / 2);
      }
    }
  }

  static double size_of(const WordCluster& cluster) { return static_cast<double>(cluster.size()); }
};

/// The best sum of φ4 over all one-to-one maps.
double best_sum(const Clusters& key, const Clusters& response) {
  if (key.size() > response.size()) return best_sum(response, key);
  std::vector<std::size_t> order(response.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  double best = 0;
  do {
    double sum = 0;
    for (std::size_t k = 0; k < key.size(); ++k) {
      const WordCluster& other = response[order[k]];
      sum += 2 * static_cast<double>(common(key[k], other)) /
             (Numerators::size_of(key[k]) + Numerators::size_of(other));
    }
    best = std::max(best, sum);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

/// Random clusters of the numbers below `mentions`, of which some are left out.
Clusters random_clusters(Index mentions, std::uint64_t clusters, std::uint64_t seed) {
  Clusters all(clusters);
  for (Index i = 0; i < mentions; ++i) {
    const std::uint64_t bits = random_bits(seed, static_cast<std::uint64_t>(i));
    if (bits % 5 != 0) all[bits / 5 % clusters].push_back({i, i});
  }
  std::erase_if(all, [](const WordCluster& cluster) { return cluster.empty(); });
  return all;
}

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0;
}

TEST(CoreferenceMetrics, EqualTheirDefinitionsOverRandomDocuments) {
  std::size_t with_singletons = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CoreferenceCounter counter;
    Numerators recall({}, {}), precision({}, {});
    double key_size = 0, response_size = 0, key_clusters = 0, response_clusters = 0, similarity = 0;
    // Sums go over three documents.
    for (std::uint64_t document = 0; document < 3; ++document) {
      const std::uint64_t own = random_bits(seed, document);
      const Clusters key = random_clusters(12, 1 + own % 6, own);
      const Clusters response = random_clusters(14, 1 + own / 7 % 7, own + 1);
      counter.add(key, response);
      const auto add = [](Numerators& to, const Numerators& more) {
        to.mentions += more.mentions;
        to.muc += more.muc;
        to.b_cubed += more.b_cubed;
        to.lea += more.lea;
      };
      add(recall, Numerators(key, response));
      add(precision, Numerators(response, key));
      key_size += total(key);
      response_size += total(response);
      key_clusters += static_cast<double>(key.size());
      response_clusters += static_cast<double>(response.size());
      similarity += best_sum(key, response);
      with_singletons +=
          std::any_of(key.begin(), key.end(), [](const auto& one) { return one.size() == 1; });
    }
    const auto found = by_name(counter.scores());
    const std::map<std::string, CoreferenceScore> expected = {
        {"mentions", {ratio(precision.mentions, response_size), ratio(recall.mentions, key_size)}},
        {"muc",
         {ratio(precision.muc, response_size - response_clusters),
          ratio(recall.muc, key_size - key_clusters)}},
        {"b_cubed", {ratio(precision.b_cubed, response_size), ratio(recall.b_cubed, key_size)}},
        {"ceaf_e", {ratio(similarity, response_clusters), ratio(similarity, key_clusters)}},
        {"lea", {ratio(precision.lea, response_size), ratio(recall.lea, key_size)}}};
    for (const auto& [name, one] : expected) {
      EXPECT_TRUE(std::abs(found.at(name).precision - one.precision) <= 1e-12) << name << seed;
      EXPECT_TRUE(std::abs(found.at(name).recall - one.recall) <= 1e-12) << name << seed;
    }
    const CoreferenceScores all = counter.scores();
    EXPECT_TRUE(std::abs(all.conll_f1() -
                         (all.muc.f1() + all.b_cubed.f1() + all.ceaf_e.f1()) / 3) <= 1e-15);
  }
  EXPECT_GT(with_singletons, 20u);
}

TEST(CoreferenceMetrics, GreedyMapsOfClustersAreNotTheBest) {
  // The largest similarity first leaves the other key cluster nothing.
  const Clusters key = clusters_of({"abcd", "ef"}), response = clusters_of({"abef", "cd"});
  const CoreferenceScore found = scores_of(key, response).ceaf_e;
  // abcd with cd: 4/6; ef with abef: 4/6.
  EXPECT_TRUE(std::abs(found.recall - (4.0 / 6 + 4.0 / 6) / 2) <= 1e-15);
}

TEST(CoreferenceMetrics, WithoutSingletonsDropsThemOnBothSides) {
  const Clusters key = clusters_of({"a", "bc", "def"}),
                 response = clusters_of({"a", "bc", "de", "f"});
  const Clusters bare_key = clusters_of({"bc", "def"}), bare_response = clusters_of({"bc", "de"});
  const auto bare = by_name(scores_of(key, response, true));
  for (const auto& [name, expected] : by_name(scores_of(bare_key, bare_response))) {
    EXPECT_EQ(bare.at(name).precision, expected.precision) << name;
    EXPECT_EQ(bare.at(name).recall, expected.recall) << name;
  }
  EXPECT_NE(bare.at("b_cubed").recall, scores_of(key, response).b_cubed.recall);
  // A span that is twice in a cluster of its own is a singleton, too.
  EXPECT_EQ(scores_of(key, clusters_of({"aa", "bc"}), true).mentions.precision, 1);
}

TEST(CoreferenceMetrics, EmptySidesAreZeroAndNotNaN) {
  const Clusters some = clusters_of({"a", "bc"});
  for (const auto& [key, response] :
       std::vector<std::pair<Clusters, Clusters>>{{some, {}}, {{}, some}, {{}, {}}}) {
    for (const auto& [name, score] : by_name(scores_of(key, response))) {
      EXPECT_EQ(score.precision, 0) << name;
      EXPECT_EQ(score.recall, 0) << name;
      EXPECT_EQ(score.f1(), 0) << name;
    }
  }
  // A document without a response costs recall alone.
  CoreferenceCounter counter;
  counter.add(some, some);
  counter.add(some, {});
  for (const auto& [name, score] : by_name(counter.scores())) {
    EXPECT_EQ(score.precision, 1) << name;
    EXPECT_EQ(score.recall, 0.5) << name;
  }
}

TEST(CoreferenceMetrics, NamesBeginWithTheMeanThatIsReported) {
  const auto all = named(scores_of(clusters_of({"ab"}), clusters_of({"ab"})));
  EXPECT_EQ(all.size(), 16u);
  EXPECT_EQ(all[0].first, "conll_f1");
  for (const auto& [name, value] : all) EXPECT_EQ(value, 1) << name;
}

TEST(BestAssignment, IsTheBestOfAllOnes) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Index rows = static_cast<Index>(random_bits(seed, 1) % 6),
                columns = static_cast<Index>(random_bits(seed, 2) % 6);
    std::vector<double> gains;
    for (Index i = 0; i < rows * columns; ++i) {
      const std::uint64_t bits = random_bits(seed, static_cast<std::uint64_t>(i) + 3);
      // Many are zero, some equal, some below zero.
      gains.push_back(bits % 3 == 0 ? 0 : static_cast<double>(bits / 3 % 7) - 1);
    }
    const std::vector<Index> chosen = best_assignment(gains, rows, columns);
    ASSERT_EQ(std::ssize(chosen), rows);
    std::set<Index> used;
    double sum = 0;
    for (Index r = 0; r < rows; ++r) {
      if (chosen[at(r)] < 0) continue;
      EXPECT_TRUE(used.insert(chosen[at(r)]).second);
      sum += gains[at(r * columns + chosen[at(r)])];
    }
    EXPECT_EQ(std::ssize(used), std::min(rows, columns));
    const Index most = std::max(rows, columns);
    std::vector<Index> order(at(most));
    std::iota(order.begin(), order.end(), Index{0});
    double best = rows * columns == 0 ? 0 : -1e9;
    do {
      double other = 0;
      for (Index r = 0; r < rows; ++r) {
        if (order[at(r)] < columns) other += gains[at(r * columns + order[at(r)])];
      }
      best = std::max(best, other);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(sum, best) << seed;
  }
}

TEST(BestAssignment, OfAChainOfClustersIsFound) {
  // All in one component: neighbours share a mention.
  const Index count = 300;
  Clusters key, response;
  for (Index i = 0; i < count; ++i) {
    key.push_back({{2 * i, 2 * i}, {2 * i + 1, 2 * i + 1}});
    response.push_back({{2 * i + 1, 2 * i + 1}, {2 * i + 2, 2 * i + 2}});
  }
  EXPECT_TRUE(std::abs(scores_of(key, response).ceaf_e.recall - 0.5) <= 1e-12);
}

}  // namespace
}  // namespace longformer::tasks::coreference_metrics_test
