#include "formats/json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/file_kind.h"
#include "formats/json_dialect.h"
#include "formats/json_text.h"
#include "formats/new_file.h"
#include "longformer/error.h"

namespace longformer::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxDepth = 128;
constexpr std::size_t kMaxShown = 80;

/// Purpose of reading a text: see parse_json and parse_json_data.
enum class JsonUse { settings, data };

/// Builds the value of a JSON text. The library's own builder looks every key of an ordered object
/// up before it adds it, which is quadratic; this one appends and checks for duplicates by hash.
class Builder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  /// Whether numbers may stand in for others: see with_stand_ins.
  enum class Numbers { plain, with_stand_ins };

  Builder(std::string_view text, const std::string& name, JsonUse use, Numbers numbers)
      : text_(text), name_(name), use_(use), numbers_(numbers) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t& digits) {
    const auto meant = value_of_stand_in(digits);
    if (meant && numbers_ == Numbers::with_stand_ins) return add(*meant);
    const bool is_whole = digits.find_first_of(".eE") == std::string::npos;
    if (is_whole && use_ == JsonUse::data) return add(digits);
    return add(value);
  }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }

  bool key(string_t& name) {
    Level& level = levels_.back();
    const bool is_new = level.keys.insert(name).second;
    require(is_new || use_ == JsonUse::data,
            "{}: expected each key once, found the key {} twice in one object", name_, quote(name));
    level.repeats = !is_new;
    level.key = std::move(name);
    return true;
  }

  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) {
    const std::string_view before = text_.substr(0, position == 0 ? 0 : position - 1);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    fail("{}: expected JSON, found a syntax error at line {}, column {}", name_, line,
         before.size() - line_start + 1);
  }

  Json take() { return std::move(result_); }

 private:
  struct Level {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
    /// The object has the key already.
    bool repeats = false;
  };

  bool open(Json container) {
    require(levels_.size() < kMaxDepth, "{}: expected JSON of at most {} levels, found more", name_,
            kMaxDepth);
    levels_.push_back({.value = std::move(container), .key = {}, .keys = {}});
    return true;
  }

  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return add(std::move(value));
  }

  bool add(Json value) {
    if (levels_.empty()) {
      result_ = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.value.is_array()) {
      level.value.get_ref<Json::array_t&>().push_back(std::move(value));
    } else if (level.repeats) {
      level.value[level.key] = std::move(value);
    } else {
      auto& object = level.value.get_ref<Json::object_t&>();
      static_cast<Json::object_t::Container&>(object).emplace_back(std::move(level.key),
                                                                   std::move(value));
    }
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  JsonUse use_;
  Numbers numbers_;
  std::vector<Level> levels_;
  Json result_;
};

Json built(std::string_view text, const std::string& name, JsonUse use, Builder::Numbers numbers) {
  Builder builder(text, name, use, numbers);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json parsed(std::string_view text, const std::string& name, JsonUse use) {
  try {
    return built(text, name, use, Builder::Numbers::plain);
  } catch (const Error&) {
    const std::string standard = with_stand_ins(text);
    if (standard == text) throw;
    return built(standard, name, use, Builder::Numbers::with_stand_ins);
  }
}

std::string shortened(std::string text) {
  if (text.size() <= kMaxShown) return text;
  std::size_t end = kMaxShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return text.substr(0, end) + "…";
}

}  // namespace

std::string read_file(const std::string& path) {
  return read_beginning(path, std::numeric_limits<std::size_t>::max());
}

std::string read_beginning(const std::string& path, std::size_t most) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  require(file.number() >= 0, "{}: expected a readable file, found: {}", path,
          std::strerror(errno));
  struct stat status {};
  require(::fstat(file.number(), &status) == 0, "{}: expected a readable file, found: {}", path,
          std::strerror(errno));
  require(S_ISREG(status.st_mode), "{}: expected a regular file, found {}", path,
          S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
  std::string contents(std::min(most, static_cast<std::size_t>(status.st_size)), '\0');
  std::size_t done = 0;
  while (done < contents.size()) {
    const ssize_t count = ::read(file.number(), contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, "{}: expected a readable file, found: {}", path, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  contents.resize(done);
  return contents;
}

void write_file(const std::string& path, std::string_view contents) {
  NewFile file(path);
  file.write(contents.data(), contents.size());
  file.commit();
}

nlohmann::ordered_json parse_json(std::string_view text, const std::string& name) {
  return parsed(text, name, JsonUse::settings);
}

nlohmann::ordered_json parse_json_data(std::string_view text, const std::string& name) {
  return parsed(text, name, JsonUse::data);
}

nlohmann::ordered_json read_json(const std::string& path) {
  const std::string text = read_file(path);
  require_no_other_kind(path, "JSON", text);
  return parse_json(text, path);
}

std::string with_null_members(std::string_view text, const std::vector<std::string>& keys,
                              const std::string& name) {
  const bool is_object = parse_json(text, name).is_object();
  require(is_object, "{}: expected a JSON object, found another value", name);
  std::string result;
  std::size_t copied = 0;
  std::size_t i = text.find('{') + 1;
  while (true) {
    i = skip_spaces(text, i);
    if (text[i] == '}') break;
    if (text[i] == ',') i = skip_spaces(text, i + 1);
    const std::size_t key_begin = i;
    i = string_end(text, i);
    const auto key = parse_json(text.substr(key_begin, i - key_begin), name).get<std::string>();
    const std::size_t value_begin = skip_spaces(text, skip_spaces(text, i) + 1);
    i = value_end(text, value_begin);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      result.append(text.substr(copied, value_begin - copied)).append("null");
      copied = i;
    }
  }
  return result.append(text.substr(copied));
}

bool is_finite_number(const nlohmann::ordered_json& value) {
  return value.is_number() && std::isfinite(value.get<double>());
}

std::string quote(std::string_view text) {
  return shortened(Json(std::string(text.substr(0, 4 * kMaxShown)))
                       .dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string shown(const nlohmann::ordered_json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  if (value.is_number() && !is_finite_number(value)) {
    return std::isnan(value.get<double>()) ? "NaN" : "an infinite number";
  }
  if (value.is_object()) return fmt::format("an object of {} keys", value.size());
  if (value.is_array() && value.size() > kMaxShown) {
    return fmt::format("a list of {} values", value.size());
  }
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

ConfigReader::ConfigReader(const nlohmann::ordered_json& object, std::string name, KeyNames keys)
    : object_(object), name_(std::move(name)), keys_(keys) {
  require(object_.is_object(), "{}: expected a JSON object, found {}", name_, shown(object_));
}

ConfigReader::ConfigReader(const nlohmann::ordered_json& object, const ConfigReader& file,
                           KeyNames keys)
    : ConfigReader(object, file.name_, keys) {
  asked_ = file.asked_;
}

std::string ConfigReader::renamed(const std::string& key) const {
  for (const auto& [asked, found] : keys_) {
    if (key == asked) return std::string(found);
  }
  return key;
}

const nlohmann::ordered_json* ConfigReader::find(const std::string& key) const {
  const std::string name = renamed(key);
  asked_->insert(name);
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

bool ConfigReader::has(const std::string& key) const {
  const Json* found = find(key);
  return found != nullptr && !found->is_null();
}

std::int64_t ConfigReader::integer(const std::string& key, std::int64_t otherwise,
                                   std::int64_t minimum, std::int64_t maximum) const {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1}
                                                                                        << 62;
  const bool good = value.is_number_integer() && !too_large &&
                    value.get<std::int64_t>() >= minimum && value.get<std::int64_t>() <= maximum;
  require(good, ConfigKey{name_, renamed(key)}, "expected an integer from {} to {}, found {}",
          minimum, maximum, shown(value));
  return value.get<std::int64_t>();
}

double ConfigReader::number(const std::string& key, double otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  require(is_finite_number(value), ConfigKey{name_, renamed(key)}, "expected a number, found {}",
          shown(value));
  return value.get<double>();
}

bool ConfigReader::boolean(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  require(value.is_boolean(), ConfigKey{name_, renamed(key)}, "expected true or false, found {}",
          shown(value));
  return value.get<bool>();
}

std::string ConfigReader::string(const std::string& key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  require(value.is_string(), ConfigKey{name_, renamed(key)}, "expected a string, found {}",
          shown(value));
  return value.get<std::string>();
}

std::size_t ConfigReader::choice(const std::string& key, std::span<const std::string_view> names,
                                 std::string_view otherwise) const {
  const std::string name = string(key, std::string(otherwise));
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), ConfigKey{name_, renamed(key)}, "expected {}, found {}",
          fmt::join(names, ", "), quote(name));
  return static_cast<std::size_t>(found - names.begin());
}

const nlohmann::ordered_json& ConfigReader::at(const std::string& key) const {
  const Json* found = find(key);
  require(found != nullptr, "{}: expected the key {}, found none", name_, quote(renamed(key)));
  return *found;
}

void ConfigReader::check_present(const std::string& key) const { at(key); }

void ConfigReader::note_asked(const std::string& key) const { find(key); }

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : object_.items()) {
    if (!value.is_null() && !asked_->contains(key)) unread.push_back(key);
  }
  return unread;
}

std::string ConfigReader::nearest_known(const std::string& key) const {
  const std::vector<std::string> known(asked_->begin(), asked_->end());
  return nearest(key, known);
}

}  // namespace longformer::formats
