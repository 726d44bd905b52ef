// The binary tree over the tokens of a text whose nodes attend to each other (BP-Transformer, arXiv
// 1911.04070; docs/spec/other-attentions.md#h11), and its keys in config.json.
//
// Level 0 are the tokens; node m of level l is the span of the tokens m·2^l … (m + 1)·2^l − 1. A
// text of n tokens has the spans that it fills. Its nodes are rows: behind each token come the
// spans that end with it, the shortest first, so that more tokens only add rows.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "formats/json.h"
#include "kernels/attention/edges.h"

namespace longformer::models {

struct TreeConfig {
  /// k: nodes of each level that a token sees.
  Index neighbors = 64;
  /// Levels whose edges have keys of their own; those of longer spans are those of the last.
  Index levels = 11;

  /// Number of kinds of edges: for each level from a span to its tokens, or from a token to itself,
  /// and to each of the k neighbours.
  Index labels() const { return levels * (neighbors + 1); }
};

/// Rows of the nodes of so many tokens, which is the row of the token behind them.
constexpr Index tree_rows(Index tokens) {
  return 2 * tokens - static_cast<Index>(std::popcount(static_cast<std::uint64_t>(tokens)));
}

/// Tokens of a text that are read together.
struct TreePiece {
  Index before = 0, tokens = 0;
  /// The row of the text's first node among the keys.
  Index first_key = 0;
};

/// The rows of pieces of texts behind each other.
struct TreeRows {
  /// First row of each piece, and the number of rows at the end.
  std::vector<Index> starts = {0};
  /// The row of each token.
  std::vector<Index> tokens = {};
  /// For each row the number of its token among those of all pieces, or, for spans, the number of
  /// tokens.
  std::vector<Index> sources = {};
};
TreeRows rows_of(std::span<const TreePiece> pieces);

/// The edges of the rows of the pieces, one piece after another, with labels if wanted. A token
/// sees itself, then the k nodes of each level that end where the shorter ones before them begin,
/// until all tokens before it are seen, each once; the first of a level is one of the level below
/// where its other half is seen already. A span sees its tokens.
kernels::EdgeRows tree_edges(const TreeConfig& tree, std::span<const TreePiece> pieces,
                             bool has_labels);
/// Number of edges of a text of n tokens.
Index tree_pairs(const TreeConfig& tree, Index n);

/// Throws Error that names file, key, expected and found.
TreeConfig read_tree(const formats::ConfigReader& config);
void write_tree(const TreeConfig& tree, nlohmann::ordered_json& json);
/// "a binary tree: 64 nodes of each level", for people.
std::string description_of(const TreeConfig& tree);

}  // namespace longformer::models
