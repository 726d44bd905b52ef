// JSON files of a checkpoint folder: bounded reading, and typed access with errors that name file
// and key.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longformer::formats {

/// Reads a whole file. Throws Error with the system's reason.
std::string read_file(const std::string& path);

/// The first bytes of a file, at most `most`. Throws Error with the system's reason.
std::string read_beginning(const std::string& path, std::size_t most);

/// Writes a whole file through a temporary name in the same folder. Throws Error.
void write_file(const std::string& path, std::string_view contents);

/// Parses JSON text as Python's json module does: NaN, Infinity and -Infinity are numbers, and half
/// of a surrogate pair is U+FFFD. `name` stands for the text in messages. Depth is bounded, time is
/// linear, objects keep their order. Throws Error for malformed text and for a key that an object
/// holds twice.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name);

/// Parses records of data as parse_json does, with two differences: the last one of equal keys
/// counts, as in Python, and a whole number of more than 64 bits is a string of its digits.
nlohmann::ordered_json parse_json_data(std::string_view text, const std::string& name);

/// read_file and parse_json.
nlohmann::ordered_json read_json(const std::string& path);

/// The text of a JSON object with the values of these top-level keys replaced by null; every other
/// byte stays as it is. Throws Error for malformed text.
std::string with_null_members(std::string_view text, const std::vector<std::string>& keys,
                              const std::string& name);

/// Whether a value is a number, and neither NaN nor infinite.
bool is_finite_number(const nlohmann::ordered_json& value);

/// A string from a file as it may appear in a message: quoted, on one line, shortened.
std::string quote(std::string_view text);

/// A JSON value as it may appear in a message: on one line, shortened.
std::string shown(const nlohmann::ordered_json& value);

/// An object of a config file with its name for messages. It remembers which keys were asked for,
/// so that a key which nothing reads can be reported.
class ConfigReader {
 public:
  /// Names of keys in this object, as {asked for, found}.
  using KeyNames = std::span<const std::pair<std::string_view, std::string_view>>;

  /// Throws Error unless `object` is a JSON object. Object and names must outlive the reader.
  ConfigReader(const nlohmann::ordered_json& object, std::string name, KeyNames keys = {});
  /// The same file in another form, or with other names of keys: asks on behalf of `file`.
  ConfigReader(const nlohmann::ordered_json& object, const ConfigReader& file, KeyNames keys = {});

  bool has(const std::string& key) const;  ///< Present and not null.
  /// The value of a key, or the default when it is absent or null. Throws Error with key, expected
  /// and found when the value has another type or lies outside the limits.
  std::int64_t integer(const std::string& key, std::int64_t otherwise, std::int64_t minimum,
                       std::int64_t maximum) const;
  double number(const std::string& key, double otherwise) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::string string(const std::string& key, const std::string& otherwise) const;
  /// Number of the name that a key has among those that it may have; `otherwise` is the usual name.
  std::size_t choice(const std::string& key, std::span<const std::string_view> names,
                     std::string_view otherwise) const;
  /// The value of a key that must be present. Throws Error when it is absent.
  const nlohmann::ordered_json& at(const std::string& key) const;
  /// Throws Error when the key is absent.
  void check_present(const std::string& key) const;
  /// Counts the key as asked for, for unread().
  void note_asked(const std::string& key) const;
  const nlohmann::ordered_json& object() const { return object_; }
  const std::string& name() const { return name_; }
  /// Name of a key in this object.
  std::string renamed(const std::string& key) const;

  /// Keys with a value that were never asked for, in their order.
  std::vector<std::string> unread() const;
  /// The key that was asked for and is closest to this one in spelling; empty when none is close.
  std::string nearest_known(const std::string& key) const;
  /// The keys that were asked for.
  const std::set<std::string>& known() const { return *asked_; }

 private:
  const nlohmann::ordered_json* find(const std::string& key) const;

  const nlohmann::ordered_json& object_;
  std::string name_;
  KeyNames keys_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();
};

}  // namespace longformer::formats
