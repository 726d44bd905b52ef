// Checksums that the Hub names files by: SHA-256 of large files, git's SHA-1 of small ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longformer::hub {

/// A sum of FIPS 180-4 over bytes that come in parts.
class Checksum {
 public:
  enum class Kind { sha1, sha256 };

  explicit Checksum(Kind kind);
  /// The sum that has so many digits, over a file of so many bytes: 40 for git, whose sum begins
  /// with the size, else 64.
  static Checksum of_file(std::size_t digits, std::int64_t size);

  void add(std::string_view bytes);
  /// The sum of what was added, in lower case. Nothing may be added behind it.
  std::string hexadecimal();

 private:
  static constexpr std::size_t kBlock = 64;

  void take(const unsigned char* block);
  void take_sha1(const std::array<std::uint32_t, 16>& words);
  void take_sha256(const std::array<std::uint32_t, 16>& words);

  Kind kind_;
  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, kBlock> rest_ = {};
  std::uint64_t size_ = 0;
};

}  // namespace longformer::hub
