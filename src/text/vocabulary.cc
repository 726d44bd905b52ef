#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"

namespace longformer::text {

std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t multiplier = 0x9e3779b97f4a7c15u;
  std::uint64_t hash = bytes.size() * multiplier;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * multiplier;
    hash ^= hash >> 32;
  };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    mix(word);
  }
  if (i < bytes.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    mix(word);
  }
  return hash;
}

void Vocabulary::add(std::string_view token, std::int64_t id, const std::string& file) {
  require(id >= 0 && id < id_limit, "{}: expected ids from 0 to {}, found {} for token '{}'", file,
          id_limit - 1, id, token);
  require(characters_.size() + token.size() < (std::size_t{1} << 31),
          "{}: expected a vocabulary of less than 2 GiB", file);
  entries_.push_back({static_cast<std::uint32_t>(characters_.size()),
                      static_cast<std::uint32_t>(token.size()), static_cast<std::int32_t>(id),
                      static_cast<std::uint32_t>(hash_bytes(token))});
  characters_ += token;
}

void Vocabulary::finish(const std::string& file, bool keep_repeated) {
  require(!entries_.empty(), "{}: expected a vocabulary, found no token", file);
  slots_.assign(std::bit_ceil(entries_.size() * 2), -1);
  const auto mask = slots_.size() - 1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    auto slot = entries_[i].hash & mask;
    while (slots_[slot] >= 0 &&
           text_of(entries_[static_cast<std::size_t>(slots_[slot])]) != text_of(entries_[i])) {
      slot = (slot + 1) & mask;
    }
    if (slots_[slot] < 0) ++count_;
    slots_[slot] = static_cast<std::int32_t>(i);
  }
  std::int32_t largest = 0;
  for (const auto slot : slots_) {
    if (slot >= 0) largest = std::max(largest, entries_[static_cast<std::size_t>(slot)].id);
  }
  by_id_.assign(static_cast<std::size_t>(largest) + 1, -1);
  for (const auto slot : slots_) {
    if (slot < 0) continue;
    const auto& entry = entries_[static_cast<std::size_t>(slot)];
    auto& owner = by_id_[static_cast<std::size_t>(entry.id)];
    require(owner < 0, "{}: expected one token per id, found '{}' and '{}' with id {}", file,
            owner < 0 ? "" : text_of(entries_[static_cast<std::size_t>(owner)]), text_of(entry),
            entry.id);
    owner = slot;
  }
  if (!keep_repeated) return;
  count_ = static_cast<std::int64_t>(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    auto& owner = by_id_[static_cast<std::size_t>(entries_[i].id)];
    if (owner < 0) owner = static_cast<std::int32_t>(i);
  }
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const auto hash = static_cast<std::uint32_t>(hash_bytes(token));
  const auto mask = slots_.size() - 1;
  for (auto slot = hash & mask; slots_[slot] >= 0; slot = (slot + 1) & mask) {
    const auto& entry = entries_[static_cast<std::size_t>(slots_[slot])];
    if (entry.hash == hash && text_of(entry) == token) return entry.id;
  }
  return std::nullopt;
}

}  // namespace longformer::text
