// Keys of a file that nothing reads.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/json.h"

namespace longformer::formats {

/// Keys that change no result though nothing reads them.
struct HarmlessKeys {
  /// Whatever their value is.
  std::span<const std::string_view> always = {};
  /// Keys that are ignored at this value, written as JSON: the default of the library that the file
  /// comes from.
  std::span<const std::pair<std::string_view, std::string_view>> with_value = {};
  /// Any key whose value is false or empty: newer versions of a library write what they leave out.
  bool ignores_empty = false;
};

/// Keys with a value that the reader was never asked for and that are not harmless.
std::vector<std::string> unused_keys(const ConfigReader& reader, const HarmlessKeys& harmless);

/// One line with the file, these keys, their values, and known keys that are close in spelling;
/// empty when there are none.
std::string unused_keys_note(const ConfigReader& reader, const HarmlessKeys& harmless);

/// Throws Error for the first of these keys, with a known key that is close in spelling.
void refuse_unused_keys(const ConfigReader& reader, const HarmlessKeys& harmless = {});

}  // namespace longformer::formats
