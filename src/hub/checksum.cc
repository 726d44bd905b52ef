#include "hub/checksum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace longformer::hub {
namespace {

using Words = std::array<std::uint32_t, 16>;

constexpr std::array<std::uint32_t, 8> kSha1Start = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                                     0xc3d2e1f0};
constexpr std::array<std::uint32_t, 8> kSha256Start = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/// First 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRoots = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const unsigned char* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

}  // namespace

Checksum::Checksum(Kind kind)
    : kind_(kind), state_(kind == Kind::sha1 ? kSha1Start : kSha256Start) {}

Checksum Checksum::of_file(std::size_t digits, std::int64_t size) {
  constexpr std::size_t kGitDigits = 40;
  if (digits != kGitDigits) return Checksum(Kind::sha256);
  Checksum sum(Kind::sha1);
  sum.add(fmt::format("blob {}", size));
  sum.add(std::string_view("\0", 1));
  return sum;
}

void Checksum::add(std::string_view bytes) {
  std::size_t filled = size_ % kBlock;
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (filled == 0 && bytes.size() >= kBlock) {
      take(reinterpret_cast<const unsigned char*>(bytes.data()));
      bytes.remove_prefix(kBlock);
      continue;
    }
    const std::size_t count = std::min(bytes.size(), kBlock - filled);
    std::memcpy(rest_.data() + filled, bytes.data(), count);
    bytes.remove_prefix(count);
    filled += count;
    if (filled == kBlock) {
      take(rest_.data());
      filled = 0;
    }
  }
}

std::string Checksum::hexadecimal() {
  const std::uint64_t bits = size_ * 8;
  add("\x80");
  constexpr std::size_t kLength = 8;
  const std::size_t zeros = (2 * kBlock - kLength - size_ % kBlock) % kBlock;
  add(std::string(zeros, '\0'));
  std::string length;
  for (int shift = 56; shift >= 0; shift -= 8) length += static_cast<char>(bits >> shift & 0xff);
  add(length);
  std::string digits;
  const std::size_t words = kind_ == Kind::sha1 ? 5 : 8;
  for (std::size_t i = 0; i < words; ++i) digits += fmt::format("{:08x}", state_[i]);
  return digits;
}

void Checksum::take(const unsigned char* block) {
  Words words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = big_endian(block + 4 * i);
  if (kind_ == Kind::sha1) {
    take_sha1(words);
  } else {
    take_sha256(words);
  }
}

void Checksum::take_sha1(const Words& words) {
  Words w = words;
  std::uint32_t a = state_[0], b = state_[1], c = state_[2], d = state_[3], e = state_[4];
  for (std::size_t i = 0; i < 80; ++i) {
    if (i >= 16) {
      w[i % 16] = std::rotl(w[(i - 3) % 16] ^ w[(i - 8) % 16] ^ w[(i - 14) % 16] ^ w[i % 16], 1);
    }
    std::uint32_t mixed = (b & c) | (~b & d), constant = 0x5a827999;
    if (i >= 60) {
      mixed = b ^ c ^ d, constant = 0xca62c1d6;
    } else if (i >= 40) {
      mixed = (b & c) | (b & d) | (c & d), constant = 0x8f1bbcdc;
    } else if (i >= 20) {
      mixed = b ^ c ^ d, constant = 0x6ed9eba1;
    }
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + constant + w[i % 16];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  state_[0] += a, state_[1] += b, state_[2] += c, state_[3] += d, state_[4] += e;
}

void Checksum::take_sha256(const Words& words) {
  Words w = words;
  std::array<std::uint32_t, 8> s = state_;
  for (std::size_t i = 0; i < kRoots.size(); ++i) {
    if (i >= 16) {
      const std::uint32_t early = w[(i - 15) % 16], late = w[(i - 2) % 16];
      w[i % 16] += (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3) + w[(i - 7) % 16] +
                   (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10);
    }
    const std::uint32_t first = s[7] +
                                (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                                ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRoots[i] + w[i % 16];
    const std::uint32_t second = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                                 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < s.size(); ++i) state_[i] += s[i];
}

}  // namespace longformer::hub
