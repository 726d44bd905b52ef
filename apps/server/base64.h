// Bytes as text.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace longformer::server {

std::string base64(std::span<const std::byte> bytes);

}  // namespace longformer::server
