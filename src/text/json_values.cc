#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "longformer/text.h"
#include "text/json_scanner.h"

namespace longformer {
namespace {

using State = text::JsonScanner::State;
using IsJson = std::function<bool(const std::string&)>;

struct NumberedLine {
  std::string text = {};
  std::int64_t number = 0, bytes = 0;
};

std::size_t first_of(std::string_view text, std::size_t from = 0) {
  return std::min(text.find_first_not_of(" \t", from), text.size());
}

bool may_begin_value(std::string_view text, std::size_t at) {
  return at < text.size() && (text[at] == '{' || text[at] == '[');
}

/// The place in a line behind a broken value where the next one begins; npos: it does not. Values
/// inside the broken one are indented by writers of JSON, or end on their line with a comma behind
/// them.
std::size_t begin_of_next(std::string_view line, std::size_t indentation) {
  std::size_t begin = first_of(line);
  if (begin > indentation) return std::string_view::npos;
  // Brackets that end the broken value.
  begin = std::min(line.find_first_not_of(" \t}]", begin), line.size());
  if (!may_begin_value(line, begin)) return std::string_view::npos;
  text::JsonScanner scanner;
  const std::size_t behind = first_of(line, scanner.read(line, begin));
  const bool is_inside = scanner.state() == State::whole && line.substr(behind).starts_with(',');
  return is_inside ? std::string_view::npos : begin;
}

}  // namespace

struct JsonValues::Implementation {
  explicit Implementation(TextLines all) : lines(std::move(all)) {}

  bool next(std::string& value, const IsJson& is_json) {
    if (!spans.empty()) {
      const auto [begin, size] = spans.front();
      spans.pop_front();
      value = line.text.substr(begin, size);
      count(line.number, 0);
      static_cast<void>(is_json(value));
      return true;
    }
    do {
      if (!take(current)) return false;
    } while (first_of(current.text) == current.text.size());
    value = std::move(current.text);
    count(current.number, current.bytes);
    if (is_json(value)) return true;
    const std::size_t open = split(value);
    if (open < value.size()) {
      NumberedLine begun = {std::move(value), current.number, current.bytes};
      value = grown(std::move(begun));
    }
    static_cast<void>(is_json(value));
    return true;
  }

  /// The next line, or the rest of one.
  bool take(NumberedLine& to) {
    if (!kept.empty()) {
      to = std::move(kept.front());
      kept.pop_front();
      return true;
    }
    if (!lines.next(to.text)) return false;
    to.number = lines.number();
    to.bytes = lines.bytes();
    return true;
  }

  void count(std::int64_t of_line, std::int64_t its_bytes) {
    record = of_line == number ? record + 1 : 1;
    number = of_line;
    bytes = its_bytes;
  }

  /// Cuts a line of several values: it becomes the first one, the others wait. Returns where a
  /// value begins that goes on in the next line, if that is the first one; else the size of the
  /// line, which stays as it is where it is broken.
  std::size_t split(std::string& value) {
    std::deque<std::pair<std::size_t, std::size_t>> found;
    std::size_t at = first_of(value);
    while (at < value.size()) {
      if (!may_begin_value(value, at)) return value.size();
      text::JsonScanner scanner;
      const std::size_t end = scanner.read(value, at);
      if (scanner.state() == State::broken) return value.size();
      if (scanner.state() == State::open) break;
      found.emplace_back(at, end - at);
      at = first_of(value, end);
    }
    if (found.empty()) return at;
    if (at < value.size()) kept.push_front({value.substr(at), number, 0});
    line = {std::exchange(value, value.substr(found.front().first, found.front().second)), number,
            0};
    found.pop_front();
    spans = std::move(found);
    return value.size();
  }

  /// The whole value that begins with a line, or the lines that are broken.
  std::string grown(NumberedLine first) {
    text::JsonScanner scanner;
    scanner.read(first.text, 0);
    const std::size_t indentation = first_of(first.text);
    std::vector<NumberedLine> read;
    read.push_back(std::move(first));
    while (scanner.state() == State::open) {
      NumberedLine next;
      if (!take(next)) break;
      const std::size_t end = scanner.read(next.text, 0);
      if (scanner.state() == State::whole && first_of(next.text, end) < next.text.size()) {
        kept.push_front({next.text.substr(end), next.number, 0});
        next.text.resize(end);
      }
      read.push_back(std::move(next));
    }
    if (scanner.state() != State::whole) leave_broken(read, indentation);
    std::string value = std::move(read.front().text);
    bytes = read.front().bytes;
    for (std::size_t i = 1; i < read.size(); ++i) {
      value.append("\n").append(read[i].text);
      bytes += read[i].bytes;
    }
    return value;
  }

  /// Goes back, or on, to where the next value begins.
  void leave_broken(std::vector<NumberedLine>& read, std::size_t indentation) {
    for (std::size_t i = 1; i < read.size(); ++i) {
      const std::size_t begin = begin_of_next(read[i].text, indentation);
      if (begin == std::string_view::npos) continue;
      kept.insert(kept.begin(), std::make_move_iterator(read.begin() + static_cast<Index>(i)),
                  std::make_move_iterator(read.end()));
      read.resize(i);
      drop(begin, read.back());
      return;
    }
    for (NumberedLine one; take(one); read.back().bytes += one.bytes) {
      const std::size_t begin = begin_of_next(one.text, indentation);
      if (begin == std::string_view::npos) continue;
      kept.push_front(std::move(one));
      drop(begin, read.back());
      return;
    }
  }

  /// Brackets before the next value belong to the broken one.
  void drop(std::size_t begin, NumberedLine& broken) {
    std::string& next = kept.front().text;
    const std::string_view before = std::string_view(next).substr(0, begin);
    if (first_of(before) < before.size()) broken.text.append("\n").append(before);
    next.erase(0, begin);
  }

  TextLines lines;
  /// Lines, and the rest of one, that were read ahead.
  std::deque<NumberedLine> kept = {};
  /// A line of several values, and where those are that wait.
  NumberedLine line = {};
  std::deque<std::pair<std::size_t, std::size_t>> spans = {};
  NumberedLine current = {};
  std::int64_t number = 0, record = 0, bytes = 0;
};

JsonValues::JsonValues(TextLines lines)
    : implementation_(std::make_unique<Implementation>(std::move(lines))) {}
JsonValues::~JsonValues() = default;
JsonValues::JsonValues(JsonValues&&) noexcept = default;
JsonValues& JsonValues::operator=(JsonValues&&) noexcept = default;

bool JsonValues::next(std::string& text, const IsJson& is_json) {
  return implementation_->next(text, is_json);
}
std::int64_t JsonValues::number() const { return implementation_->number; }
std::int64_t JsonValues::record() const {
  return implementation_->record > 1 ? implementation_->record : 0;
}
std::int64_t JsonValues::bytes() const { return implementation_->bytes; }
std::int64_t JsonValues::lines() const { return implementation_->lines.number(); }
const std::string& JsonValues::path() const { return implementation_->lines.path(); }

std::string line_and_record(std::int64_t line, std::int64_t record) {
  return record > 0 ? fmt::format("{}:{}", line, record) : fmt::format("{}", line);
}

}  // namespace longformer
