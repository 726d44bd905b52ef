#include "models/binary_partition.h"

#include <algorithm>

#include "core/error.h"

namespace longformer::models {
namespace {

constexpr Index kMostNeighbors = Index{1} << 16;
/// A text has no more tokens than a span of the level behind these.
constexpr Index kMostLevels = 25;

/// Row of a node, from that of its text's first token on.
Index node_row(Index level, Index number) { return tree_rows(((number + 1) << level) - 1) + level; }

/// Level of the longest span that ends with a token.
Index top_level(Index token) {
  return static_cast<Index>(std::countr_zero(static_cast<std::uint64_t>(token) + 1));
}

/// Nodes before it that a token sees.
Index context_size(const TreeConfig& tree, Index token) {
  Index count = 0;
  for (Index next = token - 1; next >= 0;) {
    const Index seen = std::min(tree.neighbors, next + 1);
    count += seen;
    next = (next - seen) >> 1;
  }
  return count;
}

class EdgeWriter {
 public:
  EdgeWriter(const TreeConfig& tree, bool has_labels) : tree_(tree), has_labels_(has_labels) {}

  /// All edges of the rows of a piece.
  void add(const TreePiece& piece);
  kernels::EdgeRows finish() { return std::move(rows_); }

 private:
  void add_edge(Index row, Index level, Index place) {
    rows_.key.push_back(static_cast<std::int32_t>(row));
    if (!has_labels_) return;
    const Index label = std::min(level, tree_.levels - 1) * (tree_.neighbors + 1) + place;
    rows_.label.push_back(static_cast<std::int32_t>(label));
  }
  void end_row() { rows_.begin.push_back(rows_.edges()); }
  void add_token(Index token, Index first_key);

  const TreeConfig& tree_;
  bool has_labels_;
  kernels::EdgeRows rows_;
};

void EdgeWriter::add_token(Index token, Index first_key) {
  add_edge(first_key + tree_rows(token), 0, 0);
  bool is_half = false;
  Index next = token - 1;
  for (Index level = 0; next >= 0; ++level) {
    for (Index place = 1; place <= tree_.neighbors && next >= 0; ++place, --next) {
      const Index row = is_half ? node_row(level - 1, 2 * next) : node_row(level, next);
      add_edge(first_key + row, level, place);
      is_half = false;
    }
    is_half = next % 2 == 0;
    next >>= 1;
  }
  end_row();
}

void EdgeWriter::add(const TreePiece& piece) {
  for (Index token = piece.before; token < piece.before + piece.tokens; ++token) {
    add_token(token, piece.first_key);
    for (Index level = 1; level <= top_level(token); ++level) {
      for (Index inside = token + 1 - (Index{1} << level); inside <= token; ++inside) {
        add_edge(piece.first_key + tree_rows(inside), level, 0);
      }
      end_row();
    }
  }
}

}  // namespace

TreeRows rows_of(std::span<const TreePiece> pieces) {
  TreeRows rows;
  for (const TreePiece& piece : pieces) {
    const Index first = rows.starts.back() - tree_rows(piece.before);
    for (Index token = piece.before; token < piece.before + piece.tokens; ++token) {
      rows.tokens.push_back(first + tree_rows(token));
    }
    rows.starts.push_back(first + tree_rows(piece.before + piece.tokens));
  }
  rows.sources.assign(at(rows.starts.back()), std::ssize(rows.tokens));
  for (std::size_t i = 0; i < rows.tokens.size(); ++i) {
    rows.sources[at(rows.tokens[i])] = static_cast<Index>(i);
  }
  return rows;
}

kernels::EdgeRows tree_edges(const TreeConfig& tree, std::span<const TreePiece> pieces,
                             bool has_labels) {
  EdgeWriter writer(tree, has_labels);
  for (const TreePiece& piece : pieces) writer.add(piece);
  return writer.finish();
}

Index tree_pairs(const TreeConfig& tree, Index n) {
  Index pairs = n;
  for (Index token = 0; token < n; ++token) pairs += context_size(tree, token);
  for (Index level = 1; n >> level > 0; ++level) pairs += n >> level << level;
  return pairs;
}

TreeConfig read_tree(const formats::ConfigReader& config) {
  for (const char* key : {"windows", "dilations", "dilated_heads"}) {
    require(!config.has(key),
            "{}: {}: expected none with the attention binary_partition, which has tree_neighbors",
            config.name(), key);
  }
  TreeConfig tree;
  tree.neighbors = config.integer("tree_neighbors", tree.neighbors, 1, kMostNeighbors);
  tree.levels = config.integer("tree_levels", tree.levels, 1, kMostLevels);
  return tree;
}

void write_tree(const TreeConfig& tree, nlohmann::ordered_json& json) {
  json["tree_neighbors"] = tree.neighbors;
  json["tree_levels"] = tree.levels;
}

std::string description_of(const TreeConfig& tree) {
  return fmt::format("binary tree: of each level the {} {} before a token", tree.neighbors,
                     tree.neighbors == 1 ? "span" : "spans");
}

}  // namespace longformer::models
