// Checksums of 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longformer::formats {

/// Checksum of zip archives (ISO 3309, reflected polynomial 0xedb88320).
std::uint32_t crc32(std::span<const std::byte> bytes);

/// Checksum of TensorBoard's records (Castagnoli, reflected polynomial 0x82f63b78).
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace longformer::formats
