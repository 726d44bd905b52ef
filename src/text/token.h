// Tokens while a text is being encoded, and the cache of words that were encoded before.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace longformer::text {

/// A token and the bytes of the text that it comes from.
struct TokenSpan {
  std::int32_t id;
  std::uint32_t begin;
  std::uint32_t end;
  bool added;  ///< Found as an added token, not by the model.
};

/// One token of a piece: its id and where it ends, in bytes from the start of the piece.
struct PieceToken {
  std::int32_t id;
  std::uint32_t end;
};

/// Remembers the tokens of short pieces; a piece replaces another one of the same slot. Most pieces
/// of natural text come again, and a hit costs one cache line.
class PieceCache {
 public:
  static constexpr std::size_t longest_piece = 31;
  static constexpr std::size_t most_tokens = 6;

  /// The bytes of a piece padded with zeros; the last byte is its size, so no key is all zero.
  struct Key {
    std::array<std::uint64_t, 4> words;
    // Written out: the generated comparison calls memcmp, a third of all time.
    bool operator==(const Key& other) const {
      return ((words[0] ^ other.words[0]) | (words[1] ^ other.words[1]) |
              (words[2] ^ other.words[2]) | (words[3] ^ other.words[3])) == 0;
    }
  };
  struct alignas(64) Entry {
    Key key{};
    std::uint8_t count = 0;
    std::array<std::uint8_t, most_tokens> ends{};
    std::array<std::int32_t, most_tokens> ids{};
  };

  PieceCache() : entries_(smallest) {}

  /// The key of a piece of 1 to longest_piece bytes; `readable` bytes may be read from its start.
  static Key key_of(const char* piece, std::size_t size, std::size_t readable) {
    Key key;
    if (readable >= 32) {
      std::memcpy(key.words.data(), piece, 32);
      for (std::size_t i = 0; i < 4; ++i) {
        const auto bytes = size > 8 * i ? size - 8 * i : 0;
        const auto mask = bytes >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
        key.words[i] &= mask;
      }
    } else {
      key.words = {};
      std::memcpy(key.words.data(), piece, size);
    }
    key.words[3] |= static_cast<std::uint64_t>(size) << 56;
    return key;
  }

  /// The entry where a key is or would be kept.
  Entry& entry(const Key& key) {
    constexpr std::uint64_t multiplier = 0x9e3779b97f4a7c15u;
    const auto& w = key.words;
    auto hash = (w[0] ^ (w[1] * 0xff51afd7ed558ccdu)) * multiplier;
    hash ^= (w[2] ^ (w[3] * 0xc4ceb9fe1a85ec53u)) * multiplier;
    hash ^= hash >> 32;
    hash *= multiplier;
    return entries_[(hash >> 40) & (entries_.size() - 1)];
  }

  void store(const Key& key, const std::vector<PieceToken>& tokens) {
    if (tokens.size() > most_tokens) return;
    if (++stored_ > 2 * entries_.size() && entries_.size() < largest) {
      entries_.assign(entries_.size() * 4, Entry{});
      stored_ = 0;
    }
    auto& slot = entry(key);
    slot.key = key;
    slot.count = static_cast<std::uint8_t>(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      slot.ids[i] = tokens[i].id;
      slot.ends[i] = static_cast<std::uint8_t>(tokens[i].end);
    }
  }

 private:
  // Grows with the text: 64 KiB for a sentence, at most 4 MiB.
  static constexpr std::size_t smallest = 1 << 10;
  static constexpr std::size_t largest = 1 << 16;
  std::vector<Entry> entries_;
  std::size_t stored_ = 0;
};

}  // namespace longformer::text
