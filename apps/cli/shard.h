// A part of the documents, for one of several processes that share a corpus.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longformer::cli {

/// Part `number` of `count`, from 1. A hash of its name says in which part a document is: the same
/// one in every call, whatever stands before it and in which file.
struct Shard {
  std::int64_t number = 1, count = 1;

  bool is_whole() const { return count == 1; }
  bool has(std::string_view name) const;
  /// "3/8"
  std::string text() const;
};

/// Parses "3/8". Throws UsageError about --shard unless the first number is 1 … the second.
Shard shard_of(const std::string& text);

}  // namespace longformer::cli
