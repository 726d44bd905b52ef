// Sums against the examples of FIPS 180-4 and against git and coreutils.
#include "hub/checksum.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace longformer::hub::checksum_test {
namespace {

std::string sum(Checksum::Kind kind, std::string_view bytes, std::size_t part) {
  Checksum sum(kind);
  for (std::size_t i = 0; i < bytes.size(); i += part) sum.add(bytes.substr(i, part));
  return sum.hexadecimal();
}

constexpr std::string_view kLong = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

TEST(Checksums, Sha256OfTheStandard) {
  constexpr auto kKind = Checksum::Kind::sha256;
  EXPECT_EQ(sum(kKind, "", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sum(kKind, "abc", 3),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum(kKind, kLong, 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sum(kKind, std::string(1000000, 'a'), 4096),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Checksums, Sha1OfTheStandard) {
  constexpr auto kKind = Checksum::Kind::sha1;
  EXPECT_EQ(sum(kKind, "", 1), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sum(kKind, "abc", 3), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sum(kKind, kLong, 56), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sum(kKind, std::string(1000000, 'a'), 4096),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/// git hash-object.
TEST(Checksums, BlobsOfGit) {
  EXPECT_EQ(Checksum::of_file(40, 0).hexadecimal(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  Checksum sum = Checksum::of_file(40, 6);
  sum.add("hello\n");
  EXPECT_EQ(sum.hexadecimal(), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(Checksums, PartsOfAnySize) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes += static_cast<char>(i * 7);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::string_view text = std::string_view(bytes).substr(0, size);
    for (const auto kind : {Checksum::Kind::sha1, Checksum::Kind::sha256}) {
      const std::string whole = sum(kind, text, 1000);
      for (const std::size_t part : {1, 3, 63, 64, 65, 130}) {
        EXPECT_EQ(sum(kind, text, part), whole) << size << " bytes, parts of " << part;
      }
    }
  }
}

}  // namespace
}  // namespace longformer::hub::checksum_test
