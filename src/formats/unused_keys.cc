#include "formats/unused_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"

namespace longformer::formats {
namespace {

/// More keys than these help nobody in one line.
constexpr std::size_t kListed = 24;

bool is_harmless(const std::string& key, const nlohmann::ordered_json& value,
                 const HarmlessKeys& harmless) {
  const bool is_off = value.is_boolean() ? !value.get<bool>() : value.empty();
  if (harmless.ignores_empty && is_off) return true;
  const auto& always = harmless.always;
  if (std::find(always.begin(), always.end(), key) != always.end()) return true;
  return std::any_of(harmless.with_value.begin(), harmless.with_value.end(), [&](const auto& one) {
    return one.first == key && value == nlohmann::ordered_json::parse(one.second);
  });
}

}  // namespace

std::vector<std::string> unused_keys(const ConfigReader& reader, const HarmlessKeys& harmless) {
  std::vector<std::string> unused = reader.unread();
  std::erase_if(unused, [&](const std::string& key) {
    return is_harmless(key, reader.object().at(key), harmless);
  });
  return unused;
}

std::string unused_keys_note(const ConfigReader& reader, const HarmlessKeys& harmless) {
  std::vector<std::string> shown_keys;
  for (const std::string& key : unused_keys(reader, harmless)) {
    // A key that the library knows is no mistake.
    const bool is_known = std::any_of(harmless.with_value.begin(), harmless.with_value.end(),
                                      [&](const auto& one) { return one.first == key; });
    const std::string close = is_known ? "" : reader.nearest_known(key);
    shown_keys.push_back(
        fmt::format("{}: {}{}", quote(key), shown(reader.object().at(key)),
                    close.empty() ? "" : fmt::format(" (did you mean {}?)", quote(close))));
  }
  if (shown_keys.empty()) return {};
  return fmt::format("{}: ignored, as nothing here reads it: {}", reader.name(),
                     fmt::join(shown_keys, ", "));
}

void refuse_unused_keys(const ConfigReader& reader, const HarmlessKeys& harmless) {
  const std::vector<std::string> unused = unused_keys(reader, harmless);
  if (unused.empty()) return;
  const std::string close = reader.nearest_known(unused[0]);
  std::string help;
  if (!close.empty()) {
    help = fmt::format(": did you mean {}?", quote(close));
  } else if (reader.known().size() <= kListed) {
    help = fmt::format(" (known are {})", fmt::join(reader.known(), ", "));
  }
  fail("{}: expected only keys that are read here, found {}{}", reader.name(), quote(unused[0]),
       help);
}

}  // namespace longformer::formats
