#include "formats/crc32.h"

#include <array>
#include <cstring>

namespace longformer::formats {
namespace {

constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

/// tables[k][b]: the remainder of byte b with k zero bytes behind it.
constexpr Tables make_tables(std::uint32_t polynomial) {
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) * polynomial);
    tables[0][i] = value;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t i = 0; i < 256; ++i) {
      const std::uint32_t shorter = tables[k - 1][i];
      tables[k][i] = (shorter >> 8) ^ tables[0][shorter & 0xffu];
    }
  }
  return tables;
}

constexpr Tables kZipTables = make_tables(0xedb88320u);
constexpr Tables kCastagnoliTables = make_tables(0x82f63b78u);

std::uint32_t checksum(const Tables& tables, std::span<const std::byte> bytes) {
  std::uint32_t sum = 0xffffffffu;
  while (bytes.size() >= kSlices) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    word ^= sum;
    sum = 0;
    for (std::size_t k = 0; k < kSlices; ++k) {
      sum ^= tables[kSlices - 1 - k][(word >> (8 * k)) & 0xffu];
    }
    bytes = bytes.subspan(kSlices);
  }
  for (const std::byte byte : bytes) {
    sum = (sum >> 8) ^ tables[0][(sum ^ static_cast<std::uint32_t>(byte)) & 0xffu];
  }
  return ~sum;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes) { return checksum(kZipTables, bytes); }

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  return checksum(kCastagnoliTables, bytes);
}

}  // namespace longformer::formats
