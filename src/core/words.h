// Numbers and lists that users write: strictly read, so that nothing is taken for what it is not.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace longformer {

/// The number that a whole text is; absent for anything else.
template <typename Number>
std::optional<Number> parsed_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The finite number that a whole text is; absent for anything else.
template <std::floating_point Number>
std::optional<Number> finite_number(std::string_view text) {
  const std::optional<Number> value = parsed_number<Number>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// "1 document", "2 documents"; `many` where it is not `one` and an s.
std::string counted(std::int64_t number, std::string_view one, std::string_view many = {});

/// "a", "a or b", "a, b or c", of at least one name.
std::string alternatives(std::span<const std::string_view> names);

/// Parts of a list between its commas, without spaces around them. At least one, perhaps empty.
std::vector<std::string_view> parts_of_list(std::string_view list);

}  // namespace longformer
