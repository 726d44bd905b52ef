#include "fetching.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "longformer/checkpoint.h"
#include "output.h"

namespace longformer::cli {
namespace {

std::string size_text(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

/// The name of a model in a value of `serve`, which may have another name before it.
std::string place_of(const CLI::App& verb, const std::string& value) {
  std::error_code ignored;
  const std::size_t equals = value.find('=');
  const bool has_name = verb.get_name() == "serve" && equals != std::string::npos &&
                        !std::filesystem::is_directory(value, ignored);
  return has_name ? value.substr(equals + 1) : value;
}

bool is_given(const CLI::App& verb, const char* name) {
  const CLI::Option* option = verb.get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

}  // namespace

PullReport::PullReport(Messages& messages) : messages_(messages), line_(messages, 0, 0) {}

PullOptions PullReport::options() {
  return {.plan = [this](const PullPlan& plan) { tell_plan(plan); },
          .progress = [this](const PullProgress& progress) { tell_progress(progress); },
          .note = [this](const std::string& text) { messages_.note(text); }};
}

void PullReport::tell_plan(const PullPlan& plan) const {
  constexpr std::size_t kShortCommit = 12;
  const std::string name = fmt::format("{} ({}, commit {})", plan.repository, plan.revision,
                                       plan.commit.substr(0, kShortCommit));
  if (plan.missing_files == 0) {
    return messages_.note(fmt::format("{}: {}, {}, are in the cache at {}", name,
                                      counted(plan.files, "file"), size_text(plan.bytes),
                                      plan.cache));
  }
  const bool is_part = plan.missing_files < plan.files;
  messages_.note(fmt::format(
      "fetching {} from {}: {}{}, {}{}, into {}", name, plan.endpoint,
      is_part ? fmt::format("{} of ", plan.missing_files) : "", counted(plan.files, "file"),
      is_part ? size_text(plan.missing_bytes) + " of " : "", size_text(plan.bytes), plan.cache));
}

void PullReport::tell_progress(const PullProgress& progress) {
  if (bytes_before_ < 0) bytes_before_ = progress.bytes_done;
  if (progress.waits) return line_.tell("waiting for another process that fetches the same");
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  const double rate = static_cast<double>(progress.bytes_done - bytes_before_) / elapsed;
  std::string line =
      fmt::format("{} of {}, {} of {}", progress.files_done, counted(progress.files_total, "file"),
                  size_text(progress.bytes_done), size_text(progress.bytes_total));
  if (rate >= 1) {
    const auto left = static_cast<double>(progress.bytes_total - progress.bytes_done);
    line += fmt::format(", {}/s, {} left", bytes_text(rate), duration(left / rate));
  }
  line_.tell(line);
}

namespace {

/// Fetches what a name stands for, where the cache lacks it.
void fetch(const std::string& name, Messages& messages) {
  if (!is_to_be_fetched(name)) return;
  PullReport report(messages);
  fetched_model(name, report.options());
}

/// Puts the folders of adapters in the place of their names.
void find_adapters(CLI::App& verb, Messages& messages) {
  const char* name = verb.get_name() == "convert" ? "--merge-adapter" : "--adapter";
  if (!is_given(verb, name)) return;
  CLI::Option* option = verb.get_option_no_throw(name);
  const std::vector<std::string> given = option->results();
  std::vector<std::string> found;
  for (const std::string& value : given) {
    const std::string place = place_of(verb, value);
    fetch(place, messages);
    found.push_back(value.substr(0, value.size() - place.size()) + find_adapter(place));
  }
  if (found == given) return;
  option->clear();
  for (const std::string& value : found) option->add_result(value);
  option->run_callback();
}

}  // namespace

void fetch_models(CLI::App& verb, Messages& messages) {
  // Beside these, the word in the place of MODEL is a file of data.
  const bool has_model = !is_given(verb, "--score") && !is_given(verb, "--config");
  for (const char* name : {"MODEL", "SOURCE", "FIRST", "SECOND", "--rerank", "--teacher"}) {
    if (!is_given(verb, name) || (!has_model && name == std::string("MODEL"))) continue;
    for (const std::string& value : verb.get_option(name)->results()) {
      fetch(place_of(verb, value), messages);
    }
  }
  find_adapters(verb, messages);
}

}  // namespace longformer::cli
