// The tokens of a model and their ids, in one flat hash table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::text {

/// A hash of bytes, for tables in memory.
std::uint64_t hash_bytes(std::string_view bytes);

class Vocabulary {
 public:
  /// Ids are below this: a table by id stays small whatever a file says.
  static constexpr std::int64_t id_limit = 1 << 24;

  /// Adds a token; a token that comes again takes its last id, as in `tokenizers`. `file` is for
  /// messages. Throws Error for an id out of range.
  void add(std::string_view token, std::int64_t id, const std::string& file);

  /// Builds the tables; to be called once after the last add. With `keep_repeated` the former ids
  /// of a token that came again still have it and count. Throws Error when there is no token or two
  /// tokens share an id.
  void finish(const std::string& file, bool keep_repeated = false);

  std::optional<std::int32_t> find(std::string_view token) const;
  /// The token of an id; empty text for ids that no token has.
  std::string_view token(std::int32_t id) const {
    return has(id) ? text_of(entries_[static_cast<std::size_t>(entry_of(id))]) : std::string_view();
  }
  bool has(std::int32_t id) const { return id >= 0 && id < id_end() && entry_of(id) >= 0; }
  /// Number of tokens; ids may have gaps.
  std::int64_t count() const { return count_; }
  /// One more than the largest id.
  std::int32_t id_end() const { return static_cast<std::int32_t>(by_id_.size()); }

 private:
  struct Entry {
    std::uint32_t begin;
    std::uint32_t size;
    std::int32_t id;
    std::uint32_t hash;
  };
  std::int32_t entry_of(std::int32_t id) const { return by_id_[static_cast<std::size_t>(id)]; }
  std::string_view text_of(const Entry& entry) const {
    return {characters_.data() + entry.begin, entry.size};
  }

  std::string characters_;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> slots_;  // entry of a slot, −1 when free
  std::vector<std::int32_t> by_id_;  // entry of an id, −1 for a gap
  std::int64_t count_ = 0;
};

}  // namespace longformer::text
