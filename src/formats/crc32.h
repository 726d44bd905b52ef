// The checksum of zip archives (ISO 3309, reflected polynomial 0xedb88320).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longformer::formats {

std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace longformer::formats
