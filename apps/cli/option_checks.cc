#include "option_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "flags.h"
#include "longformer/tables.h"
#include "output.h"

namespace longformer::cli {
namespace {

using Names = std::initializer_list<std::string_view>;

/// An empty text, no prompt, no labels: the help of these says so.
constexpr auto kMayBeEmpty = std::to_array<std::string_view>(
    {"--text", "--pair", "--prompt", "--query-prompt", "--passage-prompt", "--ignore-labels"});

/// `name` is that which was typed.
void check_value(const CLI::Option& option, const std::string& name, const std::string& value) {
  const bool may_be_empty = std::ranges::find(kMayBeEmpty, option.get_name()) != kMayBeEmpty.end();
  if (value.empty() && !may_be_empty) {
    throw UsageError(name, "expected a value, found an empty one");
  }
  const char between = option.get_delimiter();
  if (between == '\0' || value.empty()) return;
  const std::string twice(2, between);
  if (value.front() == between || value.back() == between || value.find(twice) != value.npos) {
    throw UsageError(name, fmt::format("expected values between commas, found an empty one in {}",
                                       in_quotes(value)));
  }
}

/// The options that were given, by their names.
class Given {
 public:
  explicit Given(const CLI::App& verb) : verb_(verb) {}

  bool has(std::string_view name) const {
    const CLI::Option* option = verb_.get_option_no_throw(std::string(name));
    return option != nullptr && option->count() > 0;
  }
  /// The value; empty where there is none.
  std::string value(std::string_view name) const {
    return has(name) ? verb_.get_option(std::string(name))->results().back() : "";
  }
  std::vector<std::string> values(std::string_view name) const {
    return has(name) ? verb_.get_option(std::string(name))->results() : std::vector<std::string>();
  }
  /// Whether the verb has such an option.
  bool knows(std::string_view name) const {
    return verb_.get_option_no_throw(std::string(name)) != nullptr;
  }
  /// The first of the names that was given; empty for none.
  std::string_view first(Names names) const {
    for (const std::string_view name : names) {
      if (has(name)) return name;
    }
    return {};
  }
  const CLI::App& verb() const { return verb_; }

 private:
  const CLI::App& verb_;
};

[[noreturn]] void refuse(std::string_view option, const std::string& reason) {
  throw UsageError(std::string(option), reason);
}

std::string_view text_field_of(const Given& given) {
  return given.first({"--text-field", "--field"});
}

bool may_hold_tables(const std::string& file) {
  std::error_code ignored;
  return !table_format_of(file).empty() || std::filesystem::is_directory(file, ignored);
}

/// The options of tables of a verb over documents.
void check_tables(const Given& given) {
  if (!given.knows("--lines") || !given.knows("FILES")) return;
  const std::string_view field = text_field_of(given);
  std::string_view option = given.first({"--id-field", "--columns", "--no-quotes", "--delimiter"});
  if (option.empty()) option = given.first({"--question-field"});
  if (option.empty()) option = field;
  if (option.empty()) return;
  if (given.has("--lines")) {
    refuse(option, "expected without --lines, which makes a document of each line, found both");
  }
  // The verb itself tells of questions.
  if (option == "--question-field") return;
  const std::vector<std::string> files = given.values("FILES");
  if (files.empty() && given.has("--text")) {
    refuse(option,
           "expected files or standard input, whose rows are documents, found --text alone");
  }
  const bool has_table = !field.empty() || std::ranges::any_of(files, may_hold_tables);
  if (has_table) return;
  refuse(option,
         "expected a table, .csv, .tsv or .jsonl, or --text-field, which names the field of the "
         "text and makes a table of any file, found none");
}

bool is_among(std::string_view value, Names names) {
  return std::find(names.begin(), names.end(), value) != names.end();
}

/// Options of tables beside a format that has no such thing.
void check_format(const Given& given) {
  const std::string format = given.value("--format");
  // The form of results has the same name in other verbs.
  const bool is_read =
      is_among(given.verb().get_name(), {"search", "evaluate", "finetune", "pretrain-mlm"});
  if (format.empty() || !is_read) return;
  const bool is_text = is_among(format, {"text", "lines", "markdown", "html"});
  const bool has_no_columns =
      is_text || is_among(format, {"jsonl", "json", "fasttext", "imdb", "hyperpartisan"});
  std::string_view option;
  if (has_no_columns) option = given.first({"--columns", "--no-quotes", "--delimiter"});
  if (is_text && option.empty()) option = given.first({"--id-field", "--text-field"});
  if (option.empty()) return;
  refuse(option,
         fmt::format("expected without --format {}, which has no use for it, found both", format));
}

void check_explanation(const Given& given) {
  const std::string method = given.value("--explain");
  if (method.empty()) return;
  const auto refuse_without = [&](const char* option, Names methods) {
    if (!given.has(option) || is_among(method, methods)) return;
    refuse(option,
           fmt::format("expected --explain {}, found {}", fmt::join(methods, " or "), method));
  };
  refuse_without("--steps", {"integrated"});
  refuse_without("--tolerance", {"integrated"});
  refuse_without("--baseline", {"gradient", "integrated"});
  refuse_without("--occlusion", {"occlusion"});
}

/// Two names of one thing, of which one alone is meant.
constexpr auto kEither = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"--api-key", "--api-key-file"}, {"--default-prompt", "--default-prompt-name"}});

void check_either(const Given& given) {
  for (const auto& [option, other] : kEither) {
    if (!given.has(option) || !given.has(other)) continue;
    refuse(option, fmt::format("expected without {}, found both", other));
  }
  const std::string way = given.value("--long");
  if (given.has("--auto-truncate") && !way.empty() && way != "truncate") {
    refuse("--auto-truncate", fmt::format("expected without --long {}, found both", way));
  }
}

void check_passages(const Given& given) {
  const bool has_length = given.verb().get_name() == "embed" && given.has("--passage-tokens");
  if (!has_length || given.value("--pooling") == "passages") return;
  refuse("--passage-tokens", "expected --pooling passages beside it, found no passages");
}

/// An option that has no effect unless another one has such a value.
struct Condition {
  std::string_view option, other;
  /// The value of the other option; empty: any.
  std::string_view value = {};
  /// The value that the other option has if it is not given; empty: another one.
  std::string_view usual = {};
};

constexpr auto kConditions = std::to_array<Condition>({
    {"--eval-steps", "--eval-strategy", "steps"},
    {"--save-steps", "--save-strategy", "steps", "steps"},
    {"--early-stopping-threshold", "--early-stopping-patience"},
    {"--lr-power", "--lr-scheduler-type", "polynomial"},
    {"--lr-end", "--lr-scheduler-type", "polynomial"},
    {"--adam-beta1", "--optim", "adamw", "adamw"},
    {"--adam-beta2", "--optim", "adamw", "adamw"},
    {"--adafactor-relative-step", "--optim", "adafactor"},
    {"--generation-max-length", "--predict-with-generate"},
    {"--generation-num-beams", "--predict-with-generate"},
    {"--merge", "--stride"},
});

bool holds(const Condition& condition, const Given& given) {
  if (!given.knows(condition.other)) return true;
  if (given.has(condition.other)) {
    return condition.value.empty() || given.value(condition.other) == condition.value;
  }
  // Text without an end has no epochs.
  const bool is_endless =
      condition.other == "--eval-strategy" && given.verb().get_name() == "pretrain-lm";
  return !condition.value.empty() && (is_endless || condition.usual == condition.value);
}

/// A pair of which the first one has no effect.
constexpr auto kOverruled = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"--warmup-ratio", "--warmup-steps"},
     {"--num-train-epochs", "--max-steps"},
     {"--overwrite-output-dir", "--resume-from-checkpoint"},
     {"--max-length", "--decode"}});

/// The task whose name ends a heading of options: "Texts (seq2seq)".
std::string_view task_of_group(std::string_view group) {
  const std::size_t begin = group.rfind('(');
  if (begin == group.npos || !group.ends_with(')')) return {};
  return group.substr(begin + 1, group.size() - begin - 2);
}

void note_other_tasks(const Given& given, Messages& messages) {
  const std::string task = given.value("--task");
  if (task.empty()) return;
  const CLI::Option* tasks = given.verb().get_option("--task");
  for (const CLI::Option* option : given.verb().get_options()) {
    const std::string group = option->get_group();
    const std::string_view other = task_of_group(group);
    if (option->count() == 0 || other.empty() || other == task || option == tasks) continue;
    messages.note(fmt::format("{} has no effect: it is for --task {}", option->get_name(), other));
  }
}

}  // namespace

void check_values(const CLI::App& verb, const std::vector<std::string>& arguments) {
  bool is_place = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!is_place && argument == "--") {
      is_place = true;
      continue;
    }
    if (argument.empty()) throw UsageError("expected a name or value, found an empty argument");
    const bool is_long = argument.starts_with("--");
    if (is_place || !argument.starts_with('-') || argument.size() == 1) continue;
    const std::size_t equals = is_long ? argument.find('=') : 2;
    const std::string name = argument.substr(0, equals);
    const CLI::Option* option = verb.get_option_no_throw(name);
    if (option == nullptr || option->get_expected_max() == 0) continue;
    if (equals < argument.size()) {
      check_value(*option, name, argument.substr(is_long ? equals + 1 : equals));
    } else if (i + 1 < arguments.size()) {
      check_value(*option, name, arguments[++i]);
    }
  }
}

void check_together(const CLI::App& verb, Messages& messages) {
  const Given given(verb);
  check_tables(given);
  check_format(given);
  check_explanation(given);
  check_passages(given);
  check_either(given);
  for (const Condition& condition : kConditions) {
    if (!given.has(condition.option) || holds(condition, given)) continue;
    messages.note(fmt::format("{} has no effect without {}{}{}", condition.option, condition.other,
                              condition.value.empty() ? "" : " ", condition.value));
  }
  for (const auto& [option, other] : kOverruled) {
    const std::string value = given.value(other);
    if (!given.has(option) || value.empty() || value == "0" || value.starts_with('-')) continue;
    messages.note(fmt::format("{} has no effect beside {}", option, other));
  }
  note_other_tasks(given, messages);
}

}  // namespace longformer::cli
