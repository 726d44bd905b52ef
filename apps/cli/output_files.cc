#include "output_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "flags.h"
#include "output.h"

namespace longformer::cli {

namespace {

namespace fs = std::filesystem;

struct NamedFile {
  std::string option;
  std::string file;
};

bool is_output(const CLI::Option& option) {
  constexpr std::array<std::string_view, 6> kNames = {
      "--output",         "--predictions", "--official-predictions",
      "--write-selected", "--losses",      "--index"};
  return option.get_type_name() == "FILE" &&
         std::ranges::find(kNames, option.get_name()) != kNames.end();
}

bool is_input(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return option.get_positional() || ((type == "FILE" || type == "FOLDER") && !is_output(option));
}

std::optional<struct stat> status_of(const std::string& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  return status;
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Whether models and data sets have files of such a name.
bool is_read_from_folders(const fs::path& file) {
  constexpr std::array<std::string_view, 6> kEndings = {".safetensors", ".bin",   ".json",
                                                        ".txt",         ".model", ".xml"};
  const std::string name = file.filename().string();
  return std::ranges::find(kEndings, file.extension().string()) != kEndings.end() ||
         name == "corpus.jsonl" || name == "queries.jsonl" ||
         file.parent_path().filename() == "qrels";
}

bool is_part_of(const std::string& file, const struct stat& folder) {
  std::error_code failure;
  const fs::path path = fs::weakly_canonical(fs::absolute(file, failure), failure);
  if (failure || !is_read_from_folders(path)) return false;
  for (fs::path at = path.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    const auto status = status_of(at.string());
    if (status && is_same(*status, folder)) return true;
  }
  return false;
}

/// Throws UsageError where `name`, under which the output is written, is a file that is there
/// before and one of the inputs.
void check_inputs(const NamedFile& output, const std::string& name,
                  const std::vector<NamedFile>& inputs) {
  const auto written = status_of(name);
  if (!written || !S_ISREG(written->st_mode)) return;
  const auto refuse = [&](const std::string& what) {
    throw UsageError(fmt::format("{}: expected a file that is not read, found {} '{}'",
                                 output.option, what, name));
  };
  for (const NamedFile& input : inputs) {
    const auto read = status_of(input.file);
    if (!read) continue;
    if (is_same(*written, *read)) refuse("the input");
    if (S_ISDIR(read->st_mode) && is_part_of(name, *read)) refuse("a file of " + input.file);
  }
  struct stat standard_input = {};
  if (fstat(STDIN_FILENO, &standard_input) == 0 && is_same(*written, standard_input)) {
    refuse("standard input");
  }
}

/// Throws UsageError where a file that --resume makes would lie among the inputs: the next run
/// would read it.
void check_folders(const NamedFile& output, const std::string& name,
                   const std::vector<NamedFile>& inputs) {
  for (const NamedFile& input : inputs) {
    const auto read = status_of(input.file);
    if (!read || !S_ISDIR(read->st_mode) || !is_part_of(name, *read)) continue;
    throw UsageError(
        fmt::format("{}: expected a place outside the folder '{}', which is read, found "
                    "'{}'",
                    output.option, input.file, name));
  }
}

/// Throws UsageError for a file that --resume goes on with: it would take what is written now for
/// its own.
void check_not_resumed(const NamedFile& output) {
  const std::string ending = fs::path(output.file).extension().string();
  if (ending != ".npy" && ending != ".jsonl") return;
  const ResumedNames beside = resumed_names(output.file);
  if (!status_of(beside.settings)) return;
  throw UsageError(
      fmt::format("{}: expected a file that --resume does not go on with, found '{}' beside '{}': "
                  "add --resume, name another file, or remove both",
                  output.option, beside.settings, output.file));
}

bool is_one(const std::string& a, const std::string& b) {
  const auto first = status_of(a), second = status_of(b);
  if (first && second) return S_ISREG(first->st_mode) && is_same(*first, *second);
  std::error_code failure;
  return !first && !second && fs::weakly_canonical(a, failure) == fs::weakly_canonical(b, failure);
}

/// Throws UsageError for a file that an output before this one is, too.
void check_others(const NamedFile& output, const std::vector<NamedFile>& outputs) {
  for (const NamedFile& other : outputs) {
    if (&other == &output) return;
    if (!is_one(other.file, output.file)) continue;
    throw UsageError(fmt::format("{}: expected another file than that of {}, found '{}'",
                                 output.option, other.option, output.file));
  }
}

}  // namespace

std::string temporary_name(const std::string& file) { return file + ".part"; }

ResumedNames resumed_names(const std::string& output) {
  return {.lines = fs::path(output).replace_extension(".jsonl").string(),
          .settings = fs::path(output).replace_extension(".settings.json").string()};
}

std::string ids_name(const std::string& array) {
  return fs::path(array).replace_extension(".ids.csv").string();
}

std::vector<std::string> checked_outputs(const CLI::App& verb) {
  const CLI::Option* resume = verb.get_option_no_throw("--resume");
  std::vector<NamedFile> inputs, outputs;
  for (const CLI::Option* option : verb.get_options()) {
    if (!is_input(*option) && !is_output(*option)) continue;
    auto& files = is_output(*option) ? outputs : inputs;
    for (const std::string& file : option->results()) files.push_back({option->get_name(), file});
  }
  std::vector<std::string> names;
  for (const NamedFile& output : outputs) {
    check_others(output, outputs);
    if (is_standard_output(output.file)) continue;
    check_inputs(output, output.file, inputs);
    check_inputs(output, temporary_name(output.file), inputs);
    if (resume != nullptr && !resume->empty()) {
      const ResumedNames beside = resumed_names(output.file);
      check_inputs(output, beside.lines, inputs);
      check_inputs(output, beside.settings, inputs);
      check_folders(output, beside.settings, inputs);
    } else if (output.option == "--output") {
      check_not_resumed(output);
    }
    names.push_back(output.file);
    if (output.option == "--output" && fs::path(output.file).extension() == ".npy") {
      names.push_back(ids_name(output.file));
      check_inputs(output, names.back(), inputs);
    }
  }
  return names;
}

}  // namespace longformer::cli
