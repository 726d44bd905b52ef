#include "text/byte_pair_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "text/unicode.h"

namespace longformer::text {
namespace {

constexpr std::uint64_t no_pair = ~std::uint64_t{0};
constexpr std::uint32_t no_rank = ~std::uint32_t{0};
// Up to this many symbols the quadratic search over an array beats the heap.
constexpr std::size_t short_piece = 64;

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

std::size_t slot_of(std::uint64_t pair, std::size_t slots) {
  const auto hash = (pair ^ (pair >> 29)) * 0x9e3779b97f4a7c15u;
  return (hash >> 32) & (slots - 1);
}

struct ByteAlphabet {
  std::array<char32_t, 256> characters;
  std::array<std::int16_t, 512> bytes;

  constexpr ByteAlphabet() : characters{}, bytes{} {
    bytes.fill(-1);
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool same = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      characters[byte] = same ? byte : next++;
      bytes[characters[byte]] = static_cast<std::int16_t>(byte);
    }
  }
};

constexpr ByteAlphabet alphabet;

}  // namespace

char32_t character_of_byte(unsigned char byte) { return alphabet.characters[byte]; }

std::optional<unsigned char> byte_of_character(char32_t character) {
  if (character >= alphabet.bytes.size() || alphabet.bytes[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(alphabet.bytes[character]);
}

BytePairEncoder::BytePairEncoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                                 BytePairOptions options)
    : vocabulary_(vocabulary), options_(options) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string token;
    if (options.merges_characters) {
      token = fmt::format("<0x{:02X}>", byte);
    } else {
      append_utf8(character_of_byte(static_cast<unsigned char>(byte)), token);
    }
    id_of_byte_[byte] = vocabulary.find(token).value_or(-1);
  }
  slots_.assign(std::bit_ceil(merges.size() * 2 + 2), Slot{no_pair, no_rank, -1});
  const auto mask = slots_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto pair = pair_of(merges[rank].left, merges[rank].right);
    auto slot = slot_of(pair, slots_.size());
    while (slots_[slot].pair != no_pair && slots_[slot].pair != pair) slot = (slot + 1) & mask;
    slots_[slot] = {pair, static_cast<std::uint32_t>(rank), merges[rank].result};
  }
}

const BytePairEncoder::Slot& BytePairEncoder::lookup(std::int32_t left, std::int32_t right) const {
  const auto pair = pair_of(left, right);
  auto slot = slot_of(pair, slots_.size());
  while (slots_[slot].pair != pair && slots_[slot].pair != no_pair) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slots_[slot];
}

void BytePairEncoder::start_bytes(std::string_view piece, Workspace& work) const {
  work.ids.clear();
  work.ends.clear();
  bool open_unknown = false;
  std::uint32_t position = 0;
  for (const char c : piece) {
    const auto id = id_of_byte_[static_cast<unsigned char>(c)];
    const bool unknown = id < 0;
    if (unknown && !options_.unknown) continue;
    ++position;
    if (unknown && open_unknown && options_.fuse_unknown) {
      work.ends.back() = position;
      continue;
    }
    work.ids.push_back(unknown ? *options_.unknown : id);
    work.ends.push_back(position);
    open_unknown = unknown;
  }
}

// `tokenizers` holds an unknown token back until the next character that is one, over bytes too.
void BytePairEncoder::start_characters(std::string_view piece, Workspace& work) const {
  work.ids.clear();
  work.ends.clear();
  std::uint32_t position = 0, unknown_size = 0;
  const auto add = [&](std::int32_t id, std::uint32_t size) {
    work.ids.push_back(id);
    work.ends.push_back(position += size);
  };
  const auto flush = [&] {
    if (unknown_size > 0) add(*options_.unknown, std::exchange(unknown_size, 0));
  };
  const auto id_of = [&](char byte) { return id_of_byte_[static_cast<unsigned char>(byte)]; };
  for (std::uint32_t i = 0, size = 0; i < piece.size(); i += size) {
    size = decode_valid(piece.data() + i).size;
    const auto character = piece.substr(i, size);
    if (const auto id = vocabulary_.find(character)) {
      flush();
      add(*id, size);
    } else if (options_.byte_fallback &&
               std::ranges::all_of(character, [&](char c) { return id_of(c) >= 0; })) {
      for (const char c : character) add(id_of(c), 1);
    } else if (options_.unknown) {
      if (!options_.fuse_unknown) flush();
      unknown_size += size;
    }
  }
  flush();
}

// Merges the best pair, leftmost first, until none is left; the arrays close up after each merge.
void BytePairEncoder::merge_short(Workspace& work) const {
  auto& ids = work.ids;
  auto& ends = work.ends;
  auto& ranks = work.ranks;
  auto count = ids.size();
  if (count < 2) return;
  // Rank above result: the smallest value is the pair to merge next.
  const auto value_at = [&](std::size_t i) {
    const auto& slot = lookup(ids[i], ids[i + 1]);
    return (static_cast<std::uint64_t>(slot.rank) << 32) | static_cast<std::uint32_t>(slot.result);
  };
  ranks.resize(count);
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = value_at(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] >> 32 < ranks[best] >> 32) best = i;
    }
    if (ranks[best] >> 32 == no_rank) break;
    ids[best] = static_cast<std::int32_t>(static_cast<std::uint32_t>(ranks[best]));
    ends[best] = ends[best + 1];
    const auto close_up = [&](auto& values) {
      std::copy(values.begin() + static_cast<std::ptrdiff_t>(best) + 2,
                values.begin() + static_cast<std::ptrdiff_t>(count),
                values.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    };
    close_up(ids);
    close_up(ends);
    close_up(ranks);
    --count;
    if (best + 1 < count) ranks[best] = value_at(best);
    if (best > 0) ranks[best - 1] = value_at(best - 1);
  }
  ids.resize(count);
  ends.resize(count);
}

// The same order of merges with a heap over a linked list; stale heap entries are skipped.
void BytePairEncoder::merge_long(Workspace& work) const {
  auto& ids = work.ids;
  auto& ends = work.ends;
  auto& previous = work.previous;
  auto& next = work.next;
  auto& heap = work.heap;
  const auto count = static_cast<std::int32_t>(ids.size());
  previous.resize(ids.size());
  next.resize(ids.size());
  heap.clear();
  const auto at = [](auto& values, std::int32_t i) -> auto& {
    return values[static_cast<std::size_t>(i)];
  };
  const auto propose = [&](std::int32_t i) {
    const auto& slot = lookup(at(ids, i), at(ids, at(next, i)));
    if (slot.rank == no_rank) return false;
    heap.push_back(
        {slot.rank, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(slot.result)});
    return true;
  };
  for (std::int32_t i = 0; i < count; ++i) {
    at(previous, i) = i - 1;
    at(next, i) = i + 1;
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) propose(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](std::int32_t i) {
    if (propose(i)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto [rank, position, result] = heap.back();
    heap.pop_back();
    const auto left = static_cast<std::int32_t>(position);
    if (at(ids, left) < 0 || at(next, left) >= count) continue;
    const auto right = at(next, left);
    if (lookup(at(ids, left), at(ids, right)).result != static_cast<std::int32_t>(result)) continue;
    at(ids, left) = static_cast<std::int32_t>(result);
    at(ends, left) = at(ends, right);
    at(ids, right) = -1;
    at(next, left) = at(next, right);
    if (at(next, left) < count) {
      at(previous, at(next, left)) = left;
      push(left);
    }
    if (at(previous, left) >= 0) push(at(previous, left));
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) continue;
    ids[kept] = ids[i];
    ends[kept++] = ends[i];
  }
  ids.resize(kept);
  ends.resize(kept);
}

std::optional<std::int32_t> BytePairEncoder::whole_token(std::string_view piece) const {
  if (options_.merges_characters) return vocabulary_.find(piece);
  std::string characters;
  for (const char c : piece)
    append_utf8(character_of_byte(static_cast<unsigned char>(c)), characters);
  return vocabulary_.find(characters);
}

void BytePairEncoder::encode(std::string_view piece, Workspace& work,
                             std::vector<PieceToken>& tokens) const {
  tokens.clear();
  if (options_.ignore_merges) {
    if (const auto id = whole_token(piece)) {
      tokens.push_back({*id, static_cast<std::uint32_t>(piece.size())});
      return;
    }
  }
  if (options_.merges_characters) {
    start_characters(piece, work);
  } else {
    start_bytes(piece, work);
  }
  if (work.ids.size() <= short_piece) {
    merge_short(work);
  } else {
    merge_long(work);
  }
  for (std::size_t i = 0; i < work.ids.size(); ++i) tokens.push_back({work.ids[i], work.ends[i]});
}

bool BytePairEncoder::may_cut_before(std::string_view character) const {
  const bool all_bytes = std::ranges::all_of(id_of_byte_, [](std::int32_t id) { return id >= 0; });
  const bool keeps_places = options_.unknown || (options_.byte_fallback && all_bytes);
  if (options_.ignore_merges || !keeps_places || !vocabulary_.find(character)) return false;
  return std::ranges::none_of(slots_, [&](const Slot& slot) {
    if (slot.pair == no_pair) return false;
    std::string_view token = vocabulary_.token(slot.result);
    while (token.starts_with(character)) token.remove_prefix(character.size());
    return token.find(character) != std::string_view::npos;
  });
}

}  // namespace longformer::text
