// A hash of 64 bits that is the same in every process and on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace longformer::cli {

/// FNV-1a; what follows `before` goes on with its hash.
inline std::uint64_t fnv1a(std::string_view bytes, std::uint64_t before = 0xcbf29ce484222325u) {
  std::uint64_t hash = before;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace longformer::cli
