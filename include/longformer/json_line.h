// Results as JSON: one object on one line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longformer {

/// One JSON object on one line, keys in the order in which they are added. NaN and infinite numbers
/// become null, control characters escapes.
class JsonLine {
 public:
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  JsonLine& add(std::string_view key, std::int64_t value);
  JsonLine& add(std::string_view key, double value);
  /// With as few digits as give the same float again.
  JsonLine& add(std::string_view key, float value);
  JsonLine& add(std::string_view key, bool value);
  JsonLine& add(std::string_view key, std::span<const float> values);
  JsonLine& add(std::string_view key, std::span<const std::int32_t> values);
  JsonLine& add(std::string_view key, std::span<const std::int64_t> values);
  JsonLine& add(std::string_view key, std::span<const std::string> values);
  /// Spans as pairs [begin, end].
  template <typename Span>
  requires requires(const Span& span) { span.begin + span.end; }
  JsonLine& add(std::string_view key, std::span<const Span> spans) {
    std::vector<std::int64_t> ends;
    for (const Span& span : spans) ends.insert(ends.end(), {span.begin, span.end});
    return add_pairs(key, ends);
  }
  /// [rows, row_size] as an array of arrays.
  JsonLine& add_rows(std::string_view key, std::span<const float> values, std::int64_t rows);
  /// [n, 2] as an array of pairs.
  JsonLine& add_pairs(std::string_view key, std::span<const std::int64_t> values);
  JsonLine& add_null(std::string_view key);
  /// A value that is JSON already.
  JsonLine& add_json(std::string_view key, std::string_view json);
  JsonLine& add_objects(std::string_view key, std::span<const JsonLine> values);
  /// All members of an object, such as a result in JSON.
  JsonLine& add_members(std::string_view object);

  /// The object without a line break.
  std::string object() const;
  std::string line() const;

 private:
  void key(std::string_view name);
  std::string text_;
};

}  // namespace longformer
