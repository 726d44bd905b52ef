#include <fmt/format.h>

#include "page_text.h"

namespace longformer::server {
namespace {

int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/// Policies name hashes in base64.
std::string base64_of_hex(std::string_view hex) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  int bits = 0;
  unsigned value = 0;
  for (const char c : hex) {
    value = value << 4 | static_cast<unsigned>(digit(c));
    bits += 4;
    if (bits < 6) continue;
    bits -= 6;
    text += kDigits[value >> bits & 63];
  }
  if (bits > 0) text += kDigits[value << (6 - bits) & 63];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

}  // namespace

std::string page_policy() {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; "
      "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      base64_of_hex(kPageScriptHash), base64_of_hex(kPageStyleHash));
}

}  // namespace longformer::server
