#include "http_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <ctime>

namespace longformer::server {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::optional<std::string_view> find(const Fields& fields, std::string_view name,
                                     bool ignores_case) {
  for (const auto& [key, value] : fields) {
    if (ignores_case ? equals_ignoring_case(key, name) : key == name) return value;
  }
  return std::nullopt;
}

/// 16 for a character that is no hexadecimal digit.
unsigned hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  const char letter = lower(c);
  return letter >= 'a' && letter <= 'f' ? static_cast<unsigned>(letter - 'a') + 10 : 16;
}

std::string_view reason_phrase(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 26> kPhrases = {{
      {100, "Continue"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {424, "Failed Dependency"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {507, "Insufficient Storage"},
  }};
  for (const auto& [code, phrase] : kPhrases) {
    if (code == status) return phrase;
  }
  return "";
}

/// A line break inside a value would begin a header of the client's choice.
void append_field(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ");
  for (const char c : value) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    text.push_back(is_control && c != '\t' ? ' ' : c);
  }
  text.append("\r\n");
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 40> text{};
  // Programs keep the C locale, so the names of days and months are English.
  const std::size_t size =
      std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

bool read_query(std::string_view text, Fields& query) {
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    if (field.empty()) continue;
    const std::size_t equals = std::min(field.find('='), field.size());
    std::optional<std::string> name = percent_decoded(field.substr(0, equals), true);
    std::optional<std::string> value =
        percent_decoded(field.substr(std::min(field.size(), equals + 1)), true);
    if (!name || !value) return false;
    query.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

}  // namespace

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  return find(headers, name, true);
}

std::optional<std::string_view> HttpRequest::query_value(std::string_view name) const {
  return find(query, name, false);
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool is_utf8(std::string_view text) {
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t size = first < 0x80             ? 1
                             : (first & 0xe0) == 0xc0 ? 2
                             : (first & 0xf0) == 0xe0 ? 3
                             : (first & 0xf8) == 0xf0 ? 4
                                                      : 0;
    if (size == 0 || size > text.size() - i) return false;
    std::uint32_t code = size == 1 ? first : first & (0x7fu >> size);
    for (std::size_t k = 1; k < size; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3fu);
    }
    if (code < kSmallest[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      return false;
    }
    i += size;
  }
  return true;
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) {
      c = ' ';
    } else if (c == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const unsigned high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high > 15 || low > 15) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    decoded.push_back(c);
  }
  return is_utf8(decoded) ? std::optional(std::move(decoded)) : std::nullopt;
}

bool is_host(std::string_view value) {
  constexpr std::string_view kMarks = "-._~%!$&'()*+;=:[]";
  return !value.empty() && std::all_of(value.begin(), value.end(), [&](char c) {
    const char letter = lower(c);
    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool read_target(std::string_view target, HttpRequest& request) {
  if (target == "*" && request.method == "OPTIONS") {
    request.path = "*";
    return true;
  }
  constexpr std::string_view kScheme = "http://";
  if (equals_ignoring_case(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    const std::string_view host = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(host.size());
    if (!is_host(host)) return false;
    for (auto& [name, value] : request.headers) {
      if (equals_ignoring_case(name, "Host")) value = host;
    }
    if (target.empty()) target = "/";
  }
  if (!target.starts_with('/')) return false;
  const std::size_t end = std::min(target.find('?'), target.size());
  std::optional<std::string> path = percent_decoded(target.substr(0, end), false);
  if (!path) return false;
  request.path = std::move(*path);
  return read_query(target.substr(std::min(target.size(), end + 1)), request.query);
}

std::string head_text(const HttpResponse& response, const Framing& framing) {
  std::string text = "HTTP/1.1 ";
  text.append(std::to_string(response.status)).append(" ");
  text.append(reason_phrase(response.status)).append("\r\n");
  append_field(text, "Date", date_now());
  if (!response.content_type.empty()) append_field(text, "Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) append_field(text, name, value);
  if (framing.length) {
    const bool has_length = response.status >= 200 && response.status != 204;
    if (has_length) append_field(text, "Content-Length", std::to_string(*framing.length));
  } else if (!framing.is_http10) {
    append_field(text, "Transfer-Encoding", "chunked");
  }
  if (!framing.keeps_connection) {
    append_field(text, "Connection", "close");
  } else if (framing.is_http10) {
    append_field(text, "Connection", "keep-alive");
  }
  return text.append("\r\n");
}

std::string chunk_text(std::string_view text) {
  std::array<char, 20> size{};
  const auto [end, error] = std::to_chars(size.data(), size.data() + size.size(), text.size(), 16);
  std::string chunk(size.data(), end);
  return chunk.append("\r\n").append(text).append("\r\n");
}

}  // namespace longformer::server
