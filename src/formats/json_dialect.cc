#include "formats/json_dialect.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "longformer/report.h"

namespace longformer {
namespace formats {
namespace {

constexpr std::string_view kNan = "NaN", kInfinity = "Infinity";
constexpr std::string_view kNanStandIn = "0E0";
constexpr std::size_t kEscape = 6;  // \uXXXX

bool is_of_token(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.';
}

bool is_number(std::string_view token) {
  return token.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
}

/// A number with a fraction or an exponent that no double holds.
bool is_too_large(std::string_view token) {
  return is_number(token) && token.find_first_of(".eE") != std::string_view::npos &&
         std::isinf(std::strtod(std::string(token).c_str(), nullptr));
}

/// The code unit of an escape \uXXXX; absent where there is none.
std::optional<unsigned long> code_unit(std::string_view text, std::size_t at) {
  const std::string_view escape = text.substr(std::min(at, text.size()), kEscape);
  if (escape.size() < kEscape || !escape.starts_with("\\u")) return std::nullopt;
  const std::string digits(escape.substr(2));
  if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
  return std::strtoul(digits.c_str(), nullptr, 16);
}

bool is_in(std::optional<unsigned long> unit, unsigned long first, unsigned long last) {
  return unit && *unit >= first && *unit <= last;
}

/// Appends a string of the text, from its quote on; returns where it ends.
std::size_t append_string(std::string_view text, std::size_t at, std::string& to) {
  to += text[at++];
  while (at < text.size() && text[at] != '"') {
    std::size_t size = text[at] == '\\' ? 2 : 1;
    const auto unit = code_unit(text, at);
    const auto append = [&](std::string_view part) { to.append(part); };
    if (is_in(unit, 0xd800, 0xdbff) && is_in(code_unit(text, at + kEscape), 0xdc00, 0xdfff)) {
      size = 2 * kEscape;
      append(text.substr(at, size));
    } else if (is_in(unit, 0xd800, 0xdfff)) {
      size = kEscape;
      append("\\ufffd");
    } else {
      append(text.substr(at, size));
    }
    at += size;
  }
  return at;
}

/// Calls `append_token` with every word and number outside strings, and appends all else.
template <typename AppendToken>
std::string rewritten(std::string_view text, const AppendToken& append_token) {
  std::string result;
  result.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    if (is_of_token(text[at])) {
      std::size_t end = at;
      while (end < text.size() && is_of_token(text[end])) ++end;
      append_token(text.substr(at, end - at), result);
      at = end;
    } else if (text[at] == '"') {
      at = append_string(text, at, result);
      if (at < text.size()) result += text[at++];
    } else {
      result += text[at++];
    }
  }
  return result;
}

}  // namespace

std::string with_stand_ins(std::string_view text) {
  return rewritten(text, [](std::string_view token, std::string& to) {
    const bool is_negative = token.starts_with('-');
    const std::string_view size = token.substr(is_negative ? 1 : 0);
    if (token == kNan) {
      to += kNanStandIn;
    } else if (size == kInfinity || is_too_large(token)) {
      to += is_negative ? "-0." : "0.";
      to.append(size.size() - 4, '0').append("E0");
    } else {
      const std::size_t begin = to.size();
      to += token;
      if (is_number(token)) std::replace(to.begin() + std::ptrdiff_t(begin), to.end(), 'E', 'e');
    }
  });
}

std::optional<double> value_of_stand_in(std::string_view number) {
  if (number.find('E') == std::string_view::npos) return std::nullopt;
  if (number == kNanStandIn) return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return number.starts_with('-') ? -infinity : infinity;
}

}  // namespace formats

std::string standard_json(std::string_view text) {
  return formats::rewritten(text, [](std::string_view token, std::string& to) {
    const bool is_finite = token != formats::kNan && token != formats::kInfinity &&
                           token != "-Infinity" && !formats::is_too_large(token);
    to += is_finite ? token : std::string_view("null");
  });
}

bool is_json_value(const std::string& text) { return nlohmann::json::accept(standard_json(text)); }

}  // namespace longformer
