#include "formats/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "longformer/report.h"

namespace longformer {
namespace formats {

std::size_t string_end(std::string_view text, std::size_t begin) {
  std::size_t i = begin + 1;
  while (text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return i + 1;
}

std::size_t skip_spaces(std::string_view text, std::size_t i) {
  return std::min(text.find_first_not_of(" \t\r\n", i), text.size());
}

std::size_t value_end(std::string_view text, std::size_t begin) {
  std::size_t depth = 0;
  std::size_t i = begin;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"') {
      i = string_end(text, i);
    } else if (c == '{' || c == '[') {
      ++depth, ++i;
    } else if (c == '}' || c == ']') {
      if (depth == 0) break;
      --depth, ++i;
    } else if (depth == 0) {
      return std::min(text.find_first_of(",}] \t\r\n", i), text.size());
    } else {
      ++i;
    }
    if (depth == 0) break;
  }
  return i;
}

std::string without_spaces(std::string_view value) {
  std::string text;
  for (std::size_t i = 0; (i = skip_spaces(value, i)) < value.size();) {
    const std::size_t end = value[i] == '"' ? string_end(value, i) : i + 1;
    text.append(value.substr(i, end - i));
    i = end;
  }
  return text;
}

namespace {

/// Calls `visit(key, value)` with the text of each member of an object, the key in its quotes.
template <typename Visit>
void each_member(std::string_view object, const Visit& visit) {
  std::size_t i = skip_spaces(object, object.find('{') + 1);
  while (i < object.size() && object[i] != '}') {
    if (object[i] == ',') i = skip_spaces(object, i + 1);
    const std::size_t key_end = string_end(object, i);
    const std::size_t value = skip_spaces(object, skip_spaces(object, key_end) + 1);
    const std::size_t end = value_end(object, value);
    visit(object.substr(i, key_end - i), object.substr(value, end - value));
    i = skip_spaces(object, end);
  }
}

/// Whether a key in quotes is the name.
bool is_key(std::string_view key, std::string_view name) {
  if (key.find('\\') == std::string_view::npos) return key.substr(1, key.size() - 2) == name;
  return nlohmann::json::parse(key).get<std::string>() == name;
}

}  // namespace
}  // namespace formats

std::vector<JsonMember> json_members(std::string_view object) {
  std::vector<JsonMember> members;
  formats::each_member(object, [&](std::string_view key, std::string_view value) {
    members.push_back(
        {nlohmann::json::parse(key).get<std::string>(), formats::without_spaces(value)});
  });
  return members;
}

std::string json_member(std::string_view object, std::string_view name) {
  std::string found;
  formats::each_member(object, [&](std::string_view key, std::string_view value) {
    if (formats::is_key(key, name)) found = formats::without_spaces(value);
  });
  return found;
}

std::vector<std::string_view> json_elements(std::string_view list) {
  std::vector<std::string_view> elements;
  std::size_t i = formats::skip_spaces(list, list.find('[') + 1);
  while (i < list.size() && list[i] != ']') {
    if (list[i] == ',') i = formats::skip_spaces(list, i + 1);
    const std::size_t end = formats::value_end(list, i);
    elements.push_back(list.substr(i, end - i));
    i = formats::skip_spaces(list, end);
  }
  return elements;
}

}  // namespace longformer
