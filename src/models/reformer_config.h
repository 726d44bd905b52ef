// A Reformer's layers in config.json (docs/spec/file-formats.md#o1,
// docs/spec/other-attentions.md#h3).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/json.h"
#include "kernels/attention/spec.h"

namespace longformer::models {

/// Tokens of a layer lie in the order of their places, or of hashes of what they are.
enum class ChunkLayer { local, lsh };

struct ReformerConfig {
  std::vector<ChunkLayer> layers = {};
  /// Tokens of a chunk, and chunks before its own and behind it that a token sees.
  struct Chunks {
    Index length = 64;
    Index before = 1, after = 0;

    Index seen() const { return length * (before + 1 + after); }
  };
  Chunks local = {}, lsh = {};
  Index hashes = 1;
  /// One number, or two whose product is that of the buckets; none: as many as the length of the
  /// text asks for.
  std::vector<Index> buckets = {};
  std::uint64_t hash_seed = 0;
  /// Longest text that the number of buckets is meant for.
  Index longest = 4096;
  /// Dropout of the probabilities of lsh layers.
  double lsh_dropout = 0;
  /// Rows and columns of the tables of positions; and how those of an encoder begin.
  std::array<Index, 2> axial_shape = {64, 64}, axial_sizes = {};
  double axial_norm_std = 1;

  const Chunks& chunks(Index layer) const {
    return layers[at(layer)] == ChunkLayer::lsh ? lsh : local;
  }
  bool has(ChunkLayer kind) const;
  /// Tokens with the padding that makes whole chunks in every layer. A text within the shortest
  /// chunk gets none.
  Index padded(Index tokens) const;
  /// Factors of the number of buckets for a text of so many tokens with its padding.
  std::vector<Index> buckets_for(Index padded) const;
};

/// "chunks of neighbours: 64 with 1 before and 0 behind; …", for people.
std::string description_of(const ReformerConfig& reformer);

/// Reads what is beside positions, of a language model with so many layers. Throws Error that names
/// file, key, expected and found.
ReformerConfig read_reformer(const formats::ConfigReader& config, Index layers);
/// Likewise of an encoder, whose tokens may see chunks behind their own, and whose layers are those
/// of attn_layers.
ReformerConfig read_reformer_encoder(const formats::ConfigReader& config);
/// Shape and sizes of axial positions, for rows of `width` numbers; Π of the shape is the longest
/// text.
void read_axial(const formats::ConfigReader& config, Index width, ReformerConfig& reformer);
void write_reformer(const ReformerConfig& reformer, bool is_axial, nlohmann::ordered_json& json);

}  // namespace longformer::models
