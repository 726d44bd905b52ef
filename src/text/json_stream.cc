#include "text/json_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/file_kind.h"

namespace longformer::text {
namespace {

using Json = nlohmann::json;
constexpr std::size_t deepest = 64;

// Receives the events of the parser. A tree of a 50,000-entry vocabulary costs ten times as much as
// the vocabulary itself (4 ms against 40 ms for RoBERTa), hence the two special places.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string file, TableLayout layout, JsonTables& tables)
      : file_(std::move(file)), layout_(layout), tables_(tables) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto most = static_cast<number_unsigned_t>(Vocabulary::id_limit);
    if (place_ == Place::vocabulary)
      return number(static_cast<std::int64_t>(std::min(value, most)));
    return in_score() ? score(static_cast<double>(value)) : scalar(value);
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    return in_score() ? score(number_of_json(digits)) : scalar(value);
  }
  bool binary(binary_t&) override { return false; }

  bool string(string_t& value) override {
    if (place_ == Place::merges && table_depth_ == 1) {
      add_merge(value, file_, tables_.merges);
      return true;
    }
    if (place_ == Place::merges) {
      require(++pair_size_ <= 2, "{}: expected merges of two tokens, found a longer one", file_);
      tables_.merges.push_back(std::move(value));
      return true;
    }
    if (place_ == Place::scores && table_depth_ == 2 && pair_size_ == 0) {
      pair_size_ = 1;
      tables_.vocabulary.add(value, static_cast<std::int64_t>(tables_.scores.size()), file_);
      return true;
    }
    return scalar(std::move(value));
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool start_object(std::size_t) override {
    check_table_value(false);
    if (at_vocabulary()) {
      place_ = Place::vocabulary;
      tables_.has_vocabulary = true;
      return true;
    }
    return open(Json::object());
  }

  bool start_array(std::size_t) override {
    if ((place_ == Place::merges || place_ == Place::scores) && table_depth_ == 1) {
      table_depth_ = 2;
      pair_size_ = 0;
      return true;
    }
    check_table_value(false);
    if (at_vocabulary() && layout_ == TableLayout::inside_model) {
      place_ = Place::scores;
      table_depth_ = 1;
      tables_.has_scores = true;
      return true;
    }
    if (layout_ == TableLayout::inside_model && in_model() && key_ == "merges") {
      place_ = Place::merges;
      table_depth_ = 1;
      tables_.has_merges = true;
      return true;
    }
    return open(Json::array());
  }

  bool end_object() override { return close(); }
  bool end_array() override {
    if (place_ == Place::merges && table_depth_ == 2) {
      require(pair_size_ == 2, "{}: expected merges of two tokens, found one of {}", file_,
              pair_size_);
      table_depth_ = 1;
      return true;
    }
    if (place_ == Place::scores && table_depth_ == 2) {
      check_table_value(pair_size_ == 2);
      table_depth_ = 1;
      return true;
    }
    return close();
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail("{}: expected JSON, found an error at byte {}", file_, position);
  }

 private:
  enum class Place { tree, vocabulary, merges, scores };
  struct Level {
    Json value;
    std::string key;  // of this value in its parent
  };

  bool in_model() const { return levels_.size() == 2 && levels_[1].key == "model"; }
  bool at_vocabulary() const {
    if (layout_ == TableLayout::whole_file) return levels_.empty();
    return layout_ == TableLayout::inside_model && in_model() && key_ == "vocab";
  }

  bool in_score() const { return place_ == Place::scores && table_depth_ == 2 && pair_size_ == 1; }

  bool score(double value) {
    pair_size_ = 2;
    tables_.scores.push_back(value);
    return true;
  }

  bool number(std::int64_t value) {
    if (in_score()) return score(static_cast<double>(value));
    if (place_ != Place::vocabulary) return scalar(value);
    tables_.vocabulary.add(key_, value, file_);
    return true;
  }

  void check_table_value(bool good) const {
    require(good || place_ != Place::vocabulary,
            "{}: expected an id for token '{}', found another type", file_, key_);
    require(good || place_ != Place::merges, "{}: expected merges as text, found another type",
            file_);
    require(good || place_ != Place::scores,
            "{}: expected pairs of a token and a score, found something else behind {} of them",
            file_, tables_.scores.size());
  }

  bool scalar(Json value) {
    check_table_value(false);
    attach(std::move(value), key_);
    return true;
  }

  bool open(Json value) {
    require(levels_.size() < deepest, "{}: expected JSON of at most {} levels, found more", file_,
            deepest);
    levels_.push_back({std::move(value), key_});
    return true;
  }

  bool close() {
    if (place_ != Place::tree) {
      place_ = Place::tree;
      return true;
    }
    auto level = std::move(levels_.back());
    levels_.pop_back();
    attach(std::move(level.value), level.key);
    return true;
  }

  void attach(Json value, const std::string& key) {
    if (levels_.empty()) {
      tables_.rest = std::move(value);
    } else if (auto& parent = levels_.back().value; parent.is_array()) {
      parent.push_back(std::move(value));
    } else {
      parent[key] = std::move(value);
    }
  }

  std::string file_;
  TableLayout layout_;
  JsonTables& tables_;
  std::vector<Level> levels_;
  std::string key_;
  Place place_ = Place::tree;
  int table_depth_ = 0;
  int pair_size_ = 0;
};

}  // namespace

double number_of_json(std::string_view digits) {
  constexpr int largest = 308;
  static const auto powers = [] {
    std::array<double, largest + 1> values;
    for (int i = 0; i <= largest; ++i) {
      values[static_cast<std::size_t>(i)] = std::strtod(fmt::format("1e{}", i).c_str(), nullptr);
    }
    return values;
  }();
  const bool negative = digits.starts_with('-');
  std::uint64_t significand = 0;
  int exponent = 0;
  bool fraction = false, full = false;
  auto i = static_cast<std::size_t>(negative);
  for (; i < digits.size() && digits[i] != 'e' && digits[i] != 'E'; ++i) {
    if (digits[i] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(digits[i] - '0');
    full = full || significand > (~std::uint64_t{0} - digit) / 10;
    if (!full) significand = significand * 10 + digit;
    exponent += full ? !fraction : -static_cast<int>(fraction);
  }
  if (i < digits.size()) {
    constexpr long limit = 1 << 20;
    const auto written = std::strtol(std::string(digits.substr(i + 1)).c_str(), nullptr, 10);
    exponent += static_cast<int>(std::clamp(written, -limit, limit));
  }
  auto value = static_cast<double>(significand);
  for (; exponent < -largest && value != 0; exponent += largest) value /= powers[largest];
  if (value == 0) return negative ? -0.0 : 0.0;
  const auto power = exponent > largest ? std::numeric_limits<double>::infinity()
                                        : powers[static_cast<std::size_t>(std::abs(exponent))];
  value = exponent < 0 ? value / power : value * power;
  return negative ? -value : value;
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  require(file.is_open(), "{}: expected a readable file, found: {}", path, std::strerror(errno));
  const auto size = file.tellg();
  std::string text(static_cast<std::size_t>(std::max<std::streamoff>(size, 0)), '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  require(size >= 0 && file.good(), "{}: expected a readable file, found a read error", path);
  require_no_other_kind(path, "a tokenizer file", text);
  return text;
}

JsonTables read_json_tables(const std::string& path, TableLayout layout) {
  const auto text = read_text_file(path);
  JsonTables tables;
  Reader reader(path, layout, tables);
  Json::sax_parse(text, &reader);
  const bool object =
      layout == TableLayout::whole_file ? tables.has_vocabulary : tables.rest.is_object();
  require(object, "{}: expected a JSON object, found another type", path);
  return tables;
}

void add_merge(std::string_view line, const std::string& file, std::vector<std::string>& merges) {
  const auto space = line.find(' ');
  require(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
          "{}: expected merges of two tokens and one space, found '{}' as merge {}", file, line,
          merges.size() / 2 + 1);
  merges.emplace_back(line.substr(0, space));
  merges.emplace_back(line.substr(space + 1));
}

}  // namespace longformer::text
