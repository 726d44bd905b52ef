// Archives, byte by byte: what zlib, liblzma and libzstd unpack, and what is wrong with others. The
// archives are those that gzip, xz and zstd make of "a b c".
#include "core/unpacking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "error_testing.h"

namespace longformer::core::unpacking_test {
namespace {

using namespace std::string_literals;

const std::map<std::string, std::string> kArchives = {
    {"gzip",
     "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x54\x48\x52\x48\x06\x00\xd0\x0d\x2e\xc8\x05\x00"
     "\x00\x00"s},
    {"xz",
     "\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5"
     "\xa3\x01\x00\x04\x61\x20\x62\x20\x63\x00\x00\x00\x00\xf1\xd3\x0a\x81\x62\xfd\xfd\x6d\x00\x01"
     "\x1d\x05\xb8\x2d\x80\xaf\x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a"s},
    {"zstd", "\x28\xb5\x2f\xfd\x04\x58\x29\x00\x00\x61\x20\x62\x20\x63\x95\x99\xb9\x8d"s}};

/// Hands out so many bytes at a time.
ByteSource source_of(std::string bytes, std::size_t step) {
  return [bytes = std::move(bytes), step, at = std::size_t{0}](std::span<char> to) mutable {
    const std::size_t count = std::min({to.size(), step, bytes.size() - at});
    std::memcpy(to.data(), bytes.data() + at, count);
    at += count;
    return count;
  };
}

std::string unpacked(const std::string& bytes, std::size_t step = 1, std::size_t room = 3) {
  UnpackedInput input("a.txt", source_of(bytes, step));
  std::string text;
  std::string buffer(room, '\0');
  for (std::size_t count = 0; (count = input.read(buffer)) > 0;) text.append(buffer, 0, count);
  EXPECT_EQ(input.read(buffer), 0u);
  return text;
}

TEST(Unpacking, ReadsArchivesOfAnySteps) {
  for (const auto& [name, archive] : kArchives) {
    SCOPED_TRACE(name);
    for (const std::size_t step : {1u, 2u, 7u, 1000u}) {
      for (const std::size_t room : {1u, 4u, 1000u}) {
        EXPECT_EQ(unpacked(archive, step, room), "a b c");
        EXPECT_EQ(unpacked(archive + archive, step, room), "a b ca b c");
      }
    }
  }
}

TEST(Unpacking, HandsOnAllElse) {
  for (const std::string text : {"", "a", "(", "(a", "\x1f", "\x1f\x8a", "\xfd",
                                 "\xfd"
                                 "7zXY",
                                 "P*M", "PK\x03\x04"}) {
    EXPECT_EQ(unpacked(text), text);
    EXPECT_EQ(unpacked(text, 100, 100), text);
  }
}

TEST(Unpacking, ArchivesThatAreCutOff) {
  for (const auto& [name, archive] : kArchives) {
    for (std::size_t size = 6; size < archive.size(); ++size) {
      SCOPED_TRACE(name + " " + std::to_string(size));
      const std::string cut = archive.substr(0, size);
      expect_error(error_of([&] { unpacked(cut); }), {"a.txt: ", "whole " + name, "cut off"});
    }
  }
}

TEST(Unpacking, ArchivesThatAreDamaged) {
  for (const auto& [name, archive] : kArchives) {
    SCOPED_TRACE(name);
    const std::string longer = archive + "abcdefgh";
    expect_error(error_of([&] { unpacked(longer); }), {"a.txt: ", name});
    // Zeros behind an archive are no data.
    EXPECT_EQ(unpacked(archive + std::string(512, '\0')), "a b c");
    for (std::size_t place = 6; place < archive.size(); ++place) {
      std::string damaged = archive;
      damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
      const std::string error = error_of([&] {
        // Bytes of the header that say nothing about the text may change.
        if (unpacked(damaged) == "a b c") fail("a.txt: expected a whole archive");
      });
      expect_error(error, {"a.txt: expected a whole"});
    }
  }
}

TEST(Unpacking, TheErrorOfTheSourceIsItsOwn) {
  const std::string archive = kArchives.at("gzip");
  UnpackedInput input("a.txt", [&, is_read = false](std::span<char> to) mutable {
    require(!std::exchange(is_read, true), FileName{"b.txt"}, "expected a readable file");
    std::memcpy(to.data(), archive.data(), 12);
    return std::size_t{12};
  });
  std::string buffer(100, '\0');
  const auto read_all = [&] {
    while (input.read(buffer) > 0) continue;
  };
  expect_error(error_of(read_all), {"b.txt: expected a readable file"});
  EXPECT_EQ(input.read(buffer), 0u);
}

TEST(Unpacking, TheRatioIsThatOfTheBytes) {
  const std::string archive = kArchives.at("zstd");
  UnpackedInput input("a.txt", source_of(archive, 100));
  EXPECT_EQ(input.ratio(), 1);
  std::string buffer(100, '\0');
  EXPECT_EQ(input.read(buffer), 5u);
  EXPECT_EQ(input.ratio(), static_cast<double>(archive.size()) / 5);
}

}  // namespace
}  // namespace longformer::core::unpacking_test
