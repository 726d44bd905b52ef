// Checksums that the Hub names files by: SHA-256 of large files, git's SHA-1 of small ones,
// computed by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace longformer::hub {

/// A sum over bytes that come in parts.
class Checksum {
 public:
  enum class Kind { sha1, sha256 };

  /// Throws Error where libcrypto is not installed.
  explicit Checksum(Kind kind);
  /// The sum that has so many digits, over a file of so many bytes: 40 for git, whose sum begins
  /// with the size, else 64.
  static Checksum of_file(std::size_t digits, std::int64_t size);

  void add(std::string_view bytes);
  /// The sum of what was added, in lower case. Nothing may be added behind it.
  std::string hexadecimal();

 private:
  struct End {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, End> context_;
};

}  // namespace longformer::hub
