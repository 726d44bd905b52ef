#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "longformer/report.h"

namespace longformer {
namespace {

/// Bytes of the character at the beginning of UTF-8 that is a control character for a terminal, but
/// none that JSON escapes; else 0.
std::size_t control_size(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return 2;
  // Embeddings, overrides and isolates of the bidirectional algorithm: U+202A to U+202E and U+2066
  // to U+2069.
  if (byte(0) != 0xe2) return 0;
  const bool embeds = byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return embeds || isolates ? 3 : 0;
}

/// JSON with such characters as escapes, which are the same text.
std::string with_escaped_controls(std::string_view json) {
  std::string escaped;
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t size = control_size(json.substr(at));
    if (size == 0) {
      escaped += json[at++];
      continue;
    }
    unsigned value =
        static_cast<unsigned char>(json[at]) & (size == 1 ? 0x7fu : 0xffu >> (size + 1));
    for (std::size_t i = 1; i < size; ++i) {
      value = (value << 6) | (static_cast<unsigned char>(json[at + i]) & 0x3fu);
    }
    fmt::format_to(std::back_inserter(escaped), "\\u{:04x}", value);
    at += size;
  }
  return escaped;
}

std::string json_string(std::string_view text) {
  return with_escaped_controls(nlohmann::json(std::string(text))
                                   .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// JSON has no NaN and no infinity: they become null.
template <typename Number>
void append_number(std::string& text, Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) {
      text += "null";
      return;
    }
  }
  fmt::format_to(std::back_inserter(text), "{}", number);
}

template <typename Element, typename Append>
void append_array(std::string& text, std::span<const Element> values, Append append) {
  text += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    append(values[i]);
  }
  text += ']';
}

}  // namespace

std::string JsonLine::object() const { return fmt::format("{{{}}}", text_); }

std::string JsonLine::line() const { return fmt::format("{{{}}}\n", text_); }

void JsonLine::key(std::string_view name) {
  if (!text_.empty()) text_ += ',';
  text_ += '"';
  text_ += name;
  text_ += "\":";
}

JsonLine& JsonLine::add(std::string_view name, std::string_view value) {
  key(name);
  text_ += json_string(value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::int64_t value) {
  key(name);
  append_number(text_, value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, double value) {
  key(name);
  append_number(text_, value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, float value) {
  key(name);
  append_number(text_, value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, bool value) {
  key(name);
  text_ += value ? "true" : "false";
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::span<const float> values) {
  key(name);
  append_array(text_, values, [this](float value) { append_number(text_, value); });
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::span<const std::int32_t> values) {
  key(name);
  append_array(text_, values, [this](std::int32_t value) { append_number(text_, value); });
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::span<const std::int64_t> values) {
  key(name);
  append_array(text_, values, [this](std::int64_t value) { append_number(text_, value); });
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::span<const std::string> values) {
  key(name);
  append_array(text_, values, [this](const std::string& value) { text_ += json_string(value); });
  return *this;
}

JsonLine& JsonLine::add_pairs(std::string_view name, std::span<const std::int64_t> values) {
  key(name);
  text_ += '[';
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    fmt::format_to(std::back_inserter(text_), "{}[{},{}]", i > 0 ? "," : "", values[i],
                   values[i + 1]);
  }
  text_ += ']';
  return *this;
}

JsonLine& JsonLine::add_rows(std::string_view name, std::span<const float> values,
                             std::int64_t rows) {
  key(name);
  text_ += '[';
  const std::size_t columns = rows > 0 ? values.size() / static_cast<std::size_t>(rows) : 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    if (row > 0) text_ += ',';
    append_array(text_, values.subspan(row * columns, columns),
                 [this](float value) { append_number(text_, value); });
  }
  text_ += ']';
  return *this;
}

JsonLine& JsonLine::add_null(std::string_view name) {
  key(name);
  text_ += "null";
  return *this;
}

JsonLine& JsonLine::add_json(std::string_view name, std::string_view json) {
  key(name);
  text_ += json;
  return *this;
}

JsonLine& JsonLine::add_objects(std::string_view name, std::span<const JsonLine> values) {
  key(name);
  append_array(text_, values, [this](const JsonLine& value) { text_ += value.object(); });
  return *this;
}

JsonLine& JsonLine::add_members(std::string_view object) {
  const std::string_view members = object.substr(1, object.size() - 2);
  if (!text_.empty() && !members.empty()) text_ += ',';
  text_ += members;
  return *this;
}

}  // namespace longformer
