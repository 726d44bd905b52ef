#include "text/word_piece.h"

#include <algorithm>
#include <bit>

namespace longformer::text {
namespace {

// Hashes of all prefixes of a word come out of one pass.
std::uint64_t extend(std::uint64_t hash, char byte) {
  return (hash ^ static_cast<unsigned char>(byte)) * 0x9e3779b97f4a7c15u;
}

std::uint64_t finished(std::uint64_t hash) { return hash ^ (hash >> 29); }

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

void WordPieceEncoder::Table::insert(std::uint64_t hash, std::int32_t id) {
  const auto mask = slots.size() - 1;
  auto slot = hash & mask;
  while (slots[slot].id >= 0) slot = (slot + 1) & mask;
  slots[slot] = {static_cast<std::uint32_t>(hash >> 32), id};
}

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary, WordPieceOptions options)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  starting_ = build(false);
  continuing_ = build(true);
}

WordPieceEncoder::Table WordPieceEncoder::build(bool continuing) const {
  const auto& prefix = options_.continuing_prefix;
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocabulary_.id_end(); ++id) {
    const auto token = vocabulary_.token(id);
    if (continuing ? token.size() > prefix.size() && token.starts_with(prefix) : !token.empty()) {
      ids.push_back(id);
    }
  }
  Table table;
  table.slots.assign(std::bit_ceil(ids.size() * 2 + 2), {0, -1});
  for (const auto id : ids) {
    const auto key = vocabulary_.token(id).substr(continuing ? prefix.size() : 0);
    table.longest = std::max(table.longest, key.size());
    std::uint64_t hash = 0;
    for (const char c : key) hash = extend(hash, c);
    table.insert(finished(hash), id);
  }
  return table;
}

PieceToken WordPieceEncoder::longest_match(bool continuing, std::string_view text,
                                           Workspace& work) const {
  const auto& table = continuing ? continuing_ : starting_;
  const auto prefix = continuing ? options_.continuing_prefix.size() : 0;
  auto& hashes = work.hashes;
  const auto limit = std::min(text.size(), table.longest);
  if (hashes.size() < limit) hashes.resize(limit);
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < limit; ++i) {
    hash = extend(hash, text[i]);
    hashes[i] = finished(hash);
  }
  const auto mask = table.slots.size() - 1;
  for (auto size = limit; size > 0; --size) {
    const auto wanted = hashes[size - 1];
    for (auto slot = wanted & mask; table.slots[slot].id >= 0; slot = (slot + 1) & mask) {
      const auto [tag, id] = table.slots[slot];
      if (tag == static_cast<std::uint32_t>(wanted >> 32) &&
          vocabulary_.token(id).substr(prefix) == text.substr(0, size)) {
        return {id, static_cast<std::uint32_t>(size)};
      }
    }
  }
  return {-1, 0};
}

void WordPieceEncoder::encode(std::string_view word, Workspace& work,
                              std::vector<PieceToken>& tokens) const {
  tokens.clear();
  const PieceToken unknown{options_.unknown, static_cast<std::uint32_t>(word.size())};
  const auto longest = static_cast<std::size_t>(options_.longest_word);
  if (word.size() > longest && character_count(word) > longest) {
    tokens.push_back(unknown);
    return;
  }
  std::size_t position = 0;
  while (position < word.size()) {
    const auto match = longest_match(position > 0, word.substr(position), work);
    if (match.id < 0) {
      tokens.assign(1, unknown);
      return;
    }
    position += match.end;
    tokens.push_back({match.id, static_cast<std::uint32_t>(position)});
  }
}

}  // namespace longformer::text
