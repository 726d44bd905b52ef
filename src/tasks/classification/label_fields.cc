#include "tasks/classification/label_fields.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "core/words.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

using Documents = std::vector<UnresolvedDocument>;

/// More numbers as 3.0 are a regression.
constexpr std::size_t kFewClasses = 20;

/// https://pandas.pydata.org/docs/reference/api/pandas.read_csv.html, na_values
constexpr std::array<std::string_view, 19> kNoLabelNames = {
    "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};
constexpr std::array<std::string_view, 6> kNoLabelInJson = {"",     "-NaN", "-nan",
                                                            "<NA>", "NaN",  "nan"};

/// "3,3" as "3.3"; absent for what is no number with a decimal comma.
std::optional<std::string> with_point(const std::string& text) {
  const std::size_t comma = text.find(',');
  const bool has_digits = comma != std::string::npos && comma > 0 && comma + 1 < text.size() &&
                          std::isdigit(static_cast<unsigned char>(text[comma - 1])) != 0;
  if (!has_digits) return std::nullopt;
  std::string number = text;
  number[comma] = '.';
  return finite_number<float>(number) ? std::optional(number) : std::nullopt;
}

/// A document whose label is a number with a decimal comma, where all labels may be such numbers.
const UnresolvedDocument* decimal_comma(const Documents& documents) {
  const UnresolvedDocument* first = nullptr;
  for (const UnresolvedDocument& document : documents) {
    const bool has_comma = with_point(document.written).has_value();
    if (!has_comma && !finite_number<float>(document.written)) return nullptr;
    if (has_comma && first == nullptr) first = &document;
  }
  return first;
}

void put_points(Documents& documents) {
  for (UnresolvedDocument& document : documents) {
    document.labels = {with_point(document.written).value_or(document.written)};
    document.list = false;
  }
}

/// Summary of all labels.
struct Overview {
  bool lists = false;
  bool numbers = true;
  /// Numbers with a fraction, and those that are written as if they had one.
  const UnresolvedDocument* fraction = nullptr;
  const UnresolvedDocument* point = nullptr;
  std::set<std::int64_t> whole = {};

  explicit Overview(const Documents& documents) {
    for (const UnresolvedDocument& document : documents) {
      lists = lists || document.list;
      for (const std::string& label : document.labels) add(label, document);
    }
  }

 private:
  void add(const std::string& label, const UnresolvedDocument& document) {
    const bool is_number = finite_number<float>(label).has_value();
    numbers = numbers && is_number;
    if (!is_number) return;
    if (const auto number = whole_number(label)) whole.insert(*number);
    const bool is_whole = whole_number(label).has_value();
    if (!is_whole && fraction == nullptr) fraction = &document;
    const bool has_point = label.find_first_of(".eE") != std::string::npos;
    if (has_point && point == nullptr) point = &document;
  }
};

std::string shown_label(const UnresolvedDocument& document) {
  return formats::quote(fmt::format("{}", fmt::join(document.labels, ", ")));
}

ProblemType problem_of(const Overview& labels, DataReport& report) {
  if (labels.lists) {
    if (labels.numbers && labels.fraction != nullptr) {
      fail(
          "{}: expected a list of names, or of 0 and 1, found {}: the problem type regression "
          "learns lists of numbers",
          labels.fraction->place, shown_label(*labels.fraction));
    }
    return ProblemType::multi_label;
  }
  if (!labels.numbers) return ProblemType::single_label;
  const bool is_regression =
      labels.fraction != nullptr || (labels.point != nullptr && labels.whole.size() > kFewClasses);
  if (is_regression) {
    const UnresolvedDocument& example = labels.fraction ? *labels.fraction : *labels.point;
    report.notes.push_back(
        fmt::format("problem type: regression, as all labels are numbers, {} at "
                    "{}",
                    shown_label(example), example.place));
    return ProblemType::regression;
  }
  report.notes.push_back(
      fmt::format("problem type: single_label_classification, as the labels are {} "
                  "(regression learns numbers)",
                  counted(static_cast<std::int64_t>(labels.whole.size()), "whole number")));
  return ProblemType::single_label;
}

/// Problem that is fixed before the labels are read.
std::optional<ProblemType> fixed_problem(const DataOptions& options,
                                         const ClassificationTarget& target) {
  std::optional<ProblemType> fixed = target.problem;
  if (!fixed && target.labels && target.labels->size() == 1) fixed = ProblemType::regression;
  if (options.problem_type.empty()) return fixed;
  const ProblemType asked = problem_type(options.problem_type);
  require(!fixed || *fixed == asked, {Remedy::new_head},
          OptionName("data.problem_type", "problem type"),
          "expected that of the model's head, {}, found {}", name_of(fixed.value_or(asked)),
          options.problem_type);
  return asked;
}

template <std::size_t Size>
bool is_in(const std::array<std::string_view, Size>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

void check_label_field(const std::string& field) {
  require(!field.empty(), "expected a label, found an empty field");
  require(!is_in(kNoLabelNames, field),
          "expected a label, found {}, which stands for none in tables (JSON lines may have a "
          "class of this name)",
          formats::quote(field));
}

void check_label_value(const std::string& value) {
  require(!is_in(kNoLabelInJson, value), "expected a label, found {}, which stands for none",
          formats::quote(value));
}

ProblemType settle_problem(Documents& documents, const DataOptions& options,
                           const ClassificationTarget& target, DataReport& report) {
  const auto fixed = fixed_problem(options, target);
  const UnresolvedDocument* comma = decimal_comma(documents);
  if (comma != nullptr && fixed == ProblemType::regression) {
    report.notes.push_back(fmt::format("labels are numbers with a decimal comma, {} at {}",
                                       formats::quote(comma->written), comma->place));
    put_points(documents);
  } else if (comma != nullptr && !fixed && !target.labels) {
    fail(
        "{}: expected labels that can be understood in one way, found {}: write a number with a "
        "decimal point, or name the problem type (regression reads decimal commas, "
        "single_label_classification takes the field as the name of a class)",
        comma->place, formats::quote(comma->written));
  }
  if (comma != nullptr && fixed == ProblemType::single_label) {
    for (UnresolvedDocument& document : documents) {
      document.labels = {document.written};
      document.list = false;
    }
  }
  if (fixed && *fixed == ProblemType::regression) return *fixed;
  const Overview labels(documents);
  const bool has_target = target.labels.has_value();
  const ProblemType found =
      fixed        ? *fixed
      : has_target ? (labels.lists ? ProblemType::multi_label : ProblemType::single_label)
                   : problem_of(labels, report);
  // Classes 1 and 1.0 are one.
  const bool are_classes = found != ProblemType::regression && labels.numbers && !labels.fraction;
  if (!are_classes || labels.point == nullptr || has_target) return found;
  for (UnresolvedDocument& document : documents) {
    for (std::string& label : document.labels) {
      label = fmt::format("{}", whole_number(label).value_or(0));
    }
  }
  return found;
}

}  // namespace longformer::tasks
