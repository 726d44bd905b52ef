#include "tasks/coreference/gap/gap_data.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/dtype.h"
#include "formats/json.h"
#include "text/charset.h"
#include "text/delimited.h"
#include "text/unicode.h"

namespace longformer::tasks {
namespace {

constexpr std::array<std::string_view, 11> kColumns = {
    "ID",      "Text", "Pronoun",  "Pronoun-offset", "A",  "A-offset",
    "A-coref", "B",    "B-offset", "B-coref",        "URL"};
enum Column { kId, kText, kPronoun, kPronounOffset, kA, kAOffset, kACoref, kB, kBOffset, kBCoref };

constexpr std::array<std::string_view, 3> kFeminine = {"she", "her", "hers"};
constexpr std::array<std::string_view, 3> kMasculine = {"he", "him", "his"};

bool is_true(const std::string& field, std::string_view column) {
  const std::string lower = text::ascii_lower(field);
  if (lower == "true") return true;
  require(lower == "false", "{}: expected TRUE or FALSE, found {}", column, formats::quote(field));
  return false;
}

/// The characters of a name of which the text and the place are given.
CharacterSpan span_of(const std::vector<std::string>& fields, Column name,
                      const std::vector<std::size_t>& starts) {
  const std::string &part = fields[name], &place = fields[name + 1];
  const bool is_number = !place.empty() && place.size() < 10 &&
                         place.find_first_not_of("0123456789") == std::string::npos;
  require(is_number, "{}-offset: expected a number of characters, found {}", kColumns[name],
          formats::quote(place));
  const std::int64_t begin = std::stoll(place);
  const std::int64_t end = begin + std::ssize(character_starts(part)) - 1;
  const bool inside = end < std::ssize(starts);
  require(
      inside && end > begin &&
          fields[kText].compare(starts[at(begin)], starts[at(end)] - starts[at(begin)], part) == 0,
      "{}: expected {} at character {} of the text, found {}", kColumns[name], formats::quote(part),
      begin,
      inside ? formats::quote(std::string_view(fields[kText])
                                  .substr(starts[at(begin)], starts[at(end)] - starts[at(begin)]))
             : "its end before that");
  return {begin, end};
}

bool is_feminine(const std::string& pronoun) {
  const std::string lower = text::ascii_lower(pronoun);
  if (std::ranges::find(kFeminine, lower) != kFeminine.end()) return true;
  require(std::ranges::find(kMasculine, lower) != kMasculine.end(),
          "Pronoun: expected he, him, his, she, her or hers, found {}", formats::quote(pronoun));
  return false;
}

GapExample example_of(const std::vector<std::string>& fields, std::int64_t line) {
  require(fields.size() == kColumns.size(), "expected {} columns, found {}", kColumns.size(),
          fields.size());
  const std::vector<std::size_t> starts = character_starts(fields[kText]);
  return {.origin = {line, fields[kId]},
          .text = fields[kText],
          .pronoun = span_of(fields, kPronoun, starts),
          .a = span_of(fields, kA, starts),
          .b = span_of(fields, kB, starts),
          .is_feminine = is_feminine(fields[kPronoun]),
          .right = {is_true(fields[kACoref], "A-coref"), is_true(fields[kBCoref], "B-coref")}};
}

void check_is_new(bool is_new, const std::string& id) {
  require(is_new, "expected each id once, found {} again", formats::quote(id));
}

}  // namespace

bool is_gap(std::string_view beginning) { return beginning.starts_with("ID\tText\tPronoun\t"); }

GapData read_gap(const std::string& path, const DataOptions& options) {
  GapData data;
  data.path = path;
  text::DelimitedReader reader(lines_of(path, options), {.separator = '\t', .quotes = false});
  std::vector<std::string> fields;
  std::set<std::string> ids;
  reader.next(fields);
  while (reader.next(fields)) {
    read_record(fmt::format("{}:{}", path, reader.line()), options, data.report, [&] {
      GapExample example = example_of(fields, reader.line());
      check_is_new(ids.insert(example.origin.id).second, example.origin.id);
      data.examples.push_back(std::move(example));
    });
  }
  check_any(path, data.examples.size(), data.report);
  return data;
}

GapAnswers read_gap_answers(const std::string& path) {
  GapAnswers answers;
  text::DelimitedReader reader(TextLines(path), {.separator = '\t', .quotes = false});
  std::vector<std::string> fields;
  while (reader.next(fields)) {
    try {
      require(fields.size() == 3, "expected id, A-coref and B-coref, found {} columns",
              fields.size());
      const GapAnswer answer = {is_true(fields[1], "A-coref"), is_true(fields[2], "B-coref")};
      check_is_new(answers.emplace(fields[0], answer).second, fields[0]);
    } catch (const Error& error) {
      throw Error(fmt::format("{}:{}: {}", path, reader.line(), error.what()));
    }
  }
  return answers;
}

std::string gap_line(const std::string& id, const GapAnswer& answer) {
  const auto name = [](bool value) { return value ? "TRUE" : "FALSE"; };
  return fmt::format("{}\t{}\t{}\n", id, name(answer.a), name(answer.b));
}

}  // namespace longformer::tasks
