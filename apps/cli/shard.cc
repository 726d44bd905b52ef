#include "shard.h"

#include <fmt/format.h>

#include "flags.h"
#include "hash.h"

namespace longformer::cli {
namespace {

/// FNV-1a, whose bits the finalizer of MurmurHash3 mixes: the remainder of FNV-1a alone by a power
/// of two depends on few bits of each letter.
std::uint64_t mixed_hash(std::string_view text) {
  std::uint64_t hash = fnv1a(text);
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
  return hash ^ hash >> 33;
}

}  // namespace

bool Shard::has(std::string_view name) const {
  const auto part = mixed_hash(name) % static_cast<std::uint64_t>(count);
  return is_whole() || part == static_cast<std::uint64_t>(number - 1);
}

std::string Shard::text() const { return fmt::format("{}/{}", number, count); }

Shard shard_of(const std::string& text) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::size_t slash = text.find('/');
  const auto number = whole_number(std::string_view(text).substr(0, slash));
  const auto count = slash == std::string::npos
                         ? std::nullopt
                         : whole_number(std::string_view(text).substr(slash + 1));
  if (!number || !count || *count < 1 || *count > kMost || *number < 1 || *number > *count) {
    throw UsageError("--shard", fmt::format("expected I/N, part I of N, from 1/N to N/N, found {}",
                                            in_quotes(text)));
  }
  return {*number, *count};
}

}  // namespace longformer::cli
