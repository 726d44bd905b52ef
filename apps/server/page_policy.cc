#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "base64.h"
#include "page_text.h"

namespace longformer::server {
namespace {

int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/// Policies name hashes in base64.
std::string base64_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return base64(bytes);
}

}  // namespace

std::string page_policy() {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; "
      "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      base64_of_hex(kPageScriptHash), base64_of_hex(kPageStyleHash));
}

}  // namespace longformer::server
