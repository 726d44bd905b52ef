// The tree of a BP-Transformer against its definition, and what its models must keep to; their
// numbers are compared in pattern_lm_test.cc.
//
// Reruns: tsan
#include "models/binary_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "error_testing.h"
#include "formats/json.h"
#include "memory_lm_testing.h"

namespace longformer::models::binary_partition_test {
namespace {

using Json = nlohmann::ordered_json;

struct Node {
  Index first = 0, count = 0, level = 0;
};

/// All nodes of n tokens in the order of their rows.
std::vector<Node> nodes_of(Index n) {
  std::vector<Node> nodes;
  for (Index token = 0; token < n; ++token) {
    for (Index level = 0; (token + 1) % (Index{1} << level) == 0; ++level) {
      const Index count = Index{1} << level;
      nodes.push_back({token + 1 - count, count, level});
    }
  }
  return nodes;
}

Index row_of(const std::vector<Node>& nodes, Index first, Index count) {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.first == first && node.count == count;
  });
  EXPECT_NE(found, nodes.end()) << first << ' ' << count;
  return found - nodes.begin();
}

using Edge = std::pair<Index, Index>;  // row and label

/// The edges of a node by the definition: the tokens before `end` are not seen yet.
std::vector<Edge> edges_of(const std::vector<Node>& nodes, const Node& node,
                           const TreeConfig& tree) {
  std::vector<Edge> edges;
  const auto add = [&](Index first, Index count, Index level, Index place) {
    const Index label = std::min(level, tree.levels - 1) * (tree.neighbors + 1) + place;
    edges.emplace_back(row_of(nodes, first, count), label);
  };
  for (Index token = node.first; token < node.first + node.count; ++token) {
    add(token, 1, node.level, 0);
  }
  if (node.level > 0) return edges;
  Index end = node.first;
  for (Index level = 0; end > 0; ++level) {
    for (Index place = 1; place <= tree.neighbors && end > 0; ++place) {
      const Index whole = Index{1} << level, count = end % whole == 0 ? whole : whole / 2;
      EXPECT_TRUE(count == whole || place == 1);
      end -= count;
      add(end, count, level, place);
    }
  }
  return edges;
}

std::vector<Edge> row(const kernels::EdgeRows& rows, Index i) {
  std::vector<Edge> edges;
  for (Index e = rows.begin[at(i)]; e < rows.begin[at(i + 1)]; ++e) {
    edges.emplace_back(rows.key[at(e)], rows.label[at(e)]);
  }
  return edges;
}

TEST(BinaryPartition, EdgesAreThoseOfTheDefinition) {
  for (const Index neighbors : {1, 2, 3, 5, 64}) {
    const TreeConfig tree = {.neighbors = neighbors, .levels = 3};
    for (const Index n : {1, 2, 3, 4, 7, 8, 16, 31, 58, 71}) {
      const std::vector<Node> nodes = nodes_of(n);
      ASSERT_EQ(tree_rows(n), std::ssize(nodes));
      const std::vector<TreePiece> piece = {{.tokens = n}};
      const kernels::EdgeRows rows = tree_edges(tree, piece, true);
      ASSERT_EQ(rows.queries(), std::ssize(nodes));
      kernels::check(rows, std::ssize(nodes), std::ssize(nodes), tree.labels());
      EXPECT_EQ(tree_pairs(tree, n), rows.edges());
      for (Index i = 0; i < std::ssize(nodes); ++i) {
        EXPECT_EQ(row(rows, i), edges_of(nodes, nodes[at(i)], tree)) << n << ' ' << i;
      }
      EXPECT_TRUE(tree_edges(tree, piece, false).label.empty());
      EXPECT_EQ(tree_edges(tree, piece, false).key, rows.key);
    }
  }
}

TEST(BinaryPartition, ATokenSeesEveryTokenBeforeItOnceAndNoneBehindIt) {
  const Index n = 200;
  const std::vector<Node> nodes = nodes_of(n);
  for (const Index neighbors : {1, 2, 7, 64, 300}) {
    const TreeConfig tree = {.neighbors = neighbors};
    const std::vector<TreePiece> piece = {{.tokens = n}};
    const kernels::EdgeRows rows = tree_edges(tree, piece, true);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::vector<Index> seen;
      for (const auto& [key, label] : row(rows, static_cast<Index>(i))) {
        const Node& node = nodes[at(key)];
        for (Index t = node.first; t < node.first + node.count; ++t) seen.push_back(t);
      }
      std::sort(seen.begin(), seen.end());
      const Index first = nodes[i].level > 0 ? nodes[i].first : 0;
      ASSERT_EQ(std::ssize(seen), nodes[i].first + nodes[i].count - first);
      for (std::size_t t = 0; t < seen.size(); ++t) ASSERT_EQ(seen[t], first + Index(t));
    }
  }
}

TEST(BinaryPartition, PiecesSeeWhatTheWholeTextDoes) {
  const TreeConfig tree = {.neighbors = 2, .levels = 4};
  const std::vector<TreePiece> texts = {{.tokens = 29}, {.tokens = 12, .first_key = 1000}};
  const kernels::EdgeRows whole = tree_edges(tree, texts, true);
  for (const Index begin : {0, 1, 7, 12, 28}) {
    const std::vector<TreePiece> pieces = {
        {.before = begin, .tokens = 29 - begin},
        {.before = begin / 3, .tokens = 12 - begin / 3, .first_key = 1000}};
    const kernels::EdgeRows rows = tree_edges(tree, pieces, true);
    const TreeRows places = rows_of(pieces);
    ASSERT_EQ(places.starts.back(), rows.queries());
    const Index second = places.starts[1];
    for (Index i = 0; i < rows.queries(); ++i) {
      const Index in_whole =
          i < second ? tree_rows(begin) + i : tree_rows(29) + tree_rows(begin / 3) + i - second;
      EXPECT_EQ(row(rows, i), row(whole, in_whole)) << begin << ' ' << i;
    }
  }
}

TEST(BinaryPartition, RowsAreTokensWithTheSpansThatTheyEnd) {
  const std::vector<TreePiece> pieces = {{.tokens = 4}, {.before = 3, .tokens = 2}};
  const TreeRows rows = rows_of(pieces);
  EXPECT_EQ(rows.starts, (std::vector<Index>{0, 7, 11}));
  EXPECT_EQ(rows.tokens, (std::vector<Index>{0, 1, 3, 4, 7, 10}));
  EXPECT_EQ(rows.sources, (std::vector<Index>{0, 1, 6, 2, 3, 6, 6, 4, 6, 6, 5}));
}

TEST(BinaryPartition, ATextTwiceAsLongHasOneLevelMore) {
  const TreeConfig tree = {.neighbors = 4};
  const auto edges_of_a_token = [&](Index n) {
    return static_cast<double>(tree_pairs(tree, n)) / static_cast<double>(n);
  };
  // A token sees k nodes of the new level, and is in one.
  for (Index n = 2048; n <= 16384; n *= 2) {
    EXPECT_NEAR(edges_of_a_token(2 * n) - edges_of_a_token(n), 5, 0.05) << n;
  }
}

Json treed(const Json& changes) {
  Json json = {{"model_type", "longformer-lm"}, {"attention", "binary_partition"},
               {"vocabulary", "text8"},         {"hidden_size", 16},
               {"num_hidden_layers", 2},        {"num_attention_heads", 4},
               {"tree_neighbors", 2},           {"tree_levels", 3},
               {"initializer_range", 0.3}};
  json.update(changes);
  return json;
}

LanguageModelConfig parsed(const Json& json) {
  return parse_language_model(formats::ConfigReader(json, "config.json"));
}

std::vector<std::int32_t> ids_of(std::size_t n) {
  const std::string text = "the quick brown fox jumps over the lazy dog and runs away ";
  return text::encode_characters(text::Alphabet::text8, text.substr(0, n));
}

struct Drawn {
  explicit Drawn(const Json& json, DType dtype = DType::f32, int threads = 2)
      : model(parsed(json), Weights::drawn(3), dtype),
        context{.memory = memory, .dtype = dtype, .threads = threads} {}

  Doubles logits(const Batch& batch, const PassOptions& options = {}) const {
    return doubles(model.logits(context, model.forward(context, batch, options)).to_floats());
  }
  Doubles logits(const std::vector<std::int32_t>& ids) const {
    return logits(segments_of(ids, std::ssize(ids)));
  }

  MemoryPool memory;
  LanguageModel model;
  ops::Context context;
};

TEST(BinaryPartition, DocumentsOfABatchAreAsIfAlone) {
  const Drawn drawn(treed(Json::object()));
  Batch batch;
  batch.starts = {0};
  Doubles wanted;
  for (const std::size_t n : {1, 13, 4, 31}) {
    const std::vector<std::int32_t> ids = ids_of(n);
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.starts.push_back(batch.rows());
    const Doubles alone = drawn.logits(ids);
    wanted.insert(wanted.end(), alone.begin(), alone.end());
  }
  std::vector<Tensor> states;
  EXPECT_TRUE(difference(drawn.logits(batch, {.hidden_states = &states}), wanted) <= 2e-6);
  ASSERT_EQ(states.size(), 3);
  for (const Tensor& state : states) EXPECT_EQ(state.rows(), batch.rows());
}

TEST(BinaryPartition, ACharacterChangesAllBehindItAndNoneBefore) {
  for (const Index neighbors : {1, 2, 5}) {
    const Drawn drawn(treed({{"tree_neighbors", neighbors}}));
    auto ids = ids_of(23);
    const Doubles before = drawn.logits(ids);
    for (std::size_t changed = 0; changed < ids.size(); ++changed) {
      auto other = ids;
      other[changed] = 26;
      const Doubles after = drawn.logits(other);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        double change = 0;
        for (std::size_t v = 0; v < 27; ++v) {
          change = std::max(change, std::abs(after[27 * i + v] - before[27 * i + v]));
        }
        EXPECT_EQ(change > 0, i >= changed) << neighbors << ' ' << changed << ' ' << i;
      }
    }
  }
}

TEST(BinaryPartition, WithAsManyNeighborsAsTokensItIsDense) {
  Json tree = treed({{"tree_neighbors", 64}, {"positions", "none"}});
  Json dense = tree;
  dense.update({{"attention", "dense"},
                {"hidden_act", "relu"},
                {"norm_position", "post"},
                {"embedding_scale", false},
                {"tie_word_embeddings", false}});
  const auto ids = ids_of(58);
  EXPECT_TRUE(difference(Drawn(tree).logits(ids), Drawn(dense).logits(ids)) <= 2e-6);
}

TEST(BinaryPartition, OtherTypesAndThreadsGiveTheSame) {
  const auto ids = ids_of(58);
  const Doubles wanted = Drawn(treed(Json::object()), DType::f32, 1).logits(ids);
  EXPECT_EQ(Drawn(treed(Json::object()), DType::f32, 3).logits(ids), wanted);
  EXPECT_TRUE(difference(Drawn(treed(Json::object()), DType::bf16).logits(ids), wanted) <= 5e-2);
}

TEST(BinaryPartition, ConfigurationsThatDoNotFitAreRefused) {
  const auto refused = [](const Json& changes) {
    return error_of([&] { parsed(treed(changes)); });
  };
  EXPECT_EQ(refused(Json::object()), "");
  EXPECT_EQ(refused({{"tree_neighbors", 0}}),
            "config.json: tree_neighbors: expected an integer from 1 to 65536, found 0");
  EXPECT_EQ(refused({{"tree_levels", 26}}),
            "config.json: tree_levels: expected an integer from 1 to 25, found 26");
  EXPECT_EQ(refused({{"windows", {4, 4}}}),
            "config.json: windows: expected none with the attention binary_partition, which has "
            "tree_neighbors");
  EXPECT_EQ(refused({{"positions", "relative"}}),
            "config.json: positions: expected tree_keys, learned, sinusoidal or none with the "
            "attention binary_partition, whose spans have no place of their own, found relative");
  EXPECT_NE(refused({{"positions", "infused"}}), "");
  EXPECT_EQ(refused({{"attention", "dense"}, {"positions", "tree_keys"}}),
            "config.json: positions: expected relative, sinusoidal, learned, infused or none with "
            "the attention dense, found tree_keys");
  for (const char* positions : {"tree_keys", "learned", "none"}) {
    const Json written = to_json(parsed(treed({{"positions", positions}})));
    EXPECT_EQ(to_json(parsed(written)), written);
  }
}

}  // namespace
}  // namespace longformer::models::binary_partition_test
