// Metadata of documents: fields with values, and conditions on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::index {

/// The fields that every index has: the file of a document, and the time of its last change.
inline constexpr const char* kPathField = "path";

/// How a value compares beside its text.
enum class ValueKind { text, number, date };

/// A half-open range of numbers, or of seconds since 1970. "2024-05" is all of that month, a number
/// the range of this number alone.
struct ValueRange {
  ValueKind kind = ValueKind::text;
  double begin = 0, end = 0;
};

/// The ranges that a text stands for: a number, a date of ISO 8601 (a day, a month, or a moment; in
/// UTC where it has no zone), both for the number of a year, or none.
std::vector<ValueRange> ranges_of(std::string_view text);

/// A value of a field as an index keeps it.
struct FieldValue {
  std::string field, text;
  ValueKind kind = ValueKind::text;
  double number = 0;
};

/// The values in a JSON object. Each of a list is one of its field; those of {"a": {"b": 1}} are of
/// the field "a.b"; null is none. Throws Error for what is no JSON object.
std::vector<FieldValue> values_of(std::string_view metadata);

/// The object on one line, without null. Throws Error as values_of().
std::string normal_metadata(std::string_view metadata);

enum class Comparison { equal, unequal, less, at_most, greater, at_least, has_part };

/// A condition on the metadata of a document, such as "year>=2020".
class Condition {
 public:
  /// Reads FIELD=VALUE, FIELD!=VALUE, FIELD>=VALUE, FIELD<=VALUE, FIELD>VALUE, FIELD<VALUE or
  /// FIELD~PART. A JSON list of values means any of them (not with < and >), a JSON string a text
  /// that is no number and no date. Throws Error for anything else.
  explicit Condition(const std::string& expression);

  const std::string& field() const { return field_; }
  Comparison comparison() const { return comparison_; }
  bool is_ordering() const;

  /// A value that the field is compared with.
  struct Operand {
    std::string text;
    std::vector<ValueRange> ranges;
  };
  const std::vector<Operand>& operands() const { return operands_; }

  /// Whether a text has one of the parts in it, whatever the case of its letters.
  bool has_part(std::string_view text) const;
  /// Whether a path matches one of the patterns.
  bool matches_path(const std::string& path) const;

 private:
  std::string field_;
  Comparison comparison_ = Comparison::equal;
  std::vector<Operand> operands_;
};

/// The conditions of a JSON value: a list of expressions, or an object such as
/// {"author": "Smith", "year": {">=": 2020, "<": 2024}, "tag": ["a", "b"]}, where a list means any
/// of its values. Throws Error for anything else.
std::vector<std::string> expressions_of(std::string_view json);

}  // namespace longformer::index
