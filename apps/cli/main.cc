// The program `longformer`: longformer VERB MODEL [INPUT…] [--options].
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "advice.h"
#include "fetching.h"
#include "help.h"
#include "longformer/error.h"
#include "option_checks.h"
#include "output.h"
#include "output_files.h"
#include "stop_signals.h"
#include "usage.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

constexpr const char* kVersion = "longformer " LONGFORMER_VERSION;

constexpr const char* kDescription =
    "Run Longformer, BERT and RoBERTa checkpoints on documents of any length.\n"
    "MODEL is a Hugging Face checkpoint folder. Results go to stdout, messages to stderr.";

constexpr const char* kFooter =
    "\nExample:\n"
    "  longformer convert bert-folder longformer-folder --window 256\n"
    "  longformer search longformer-folder novel.txt --query \"Who is the murderer?\"\n\n"
    "'longformer VERB --help' explains a verb.";

/// No verb and no option is longer.
constexpr std::size_t kLongestWord = 80;

std::vector<std::string> names_of_verbs(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* verb : program.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> normalized(const std::vector<std::string>& typed) {
  std::vector<std::string> arguments = typed;
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    argument = cli::normalized(std::move(argument));
  }
  return arguments;
}

void check_verb(const CLI::App& program, const std::vector<std::string>& arguments) {
  const std::vector<std::string> names = names_of_verbs(program);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  if (arguments.empty()) {
    throw UsageError(fmt::format("no verb given: expected one of {}", list));
  }
  const std::string& word = arguments.front();
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return;
  const std::string close = nearest(word.substr(0, kLongestWord), names);
  throw UsageError(close.empty()
                       ? fmt::format("no verb {}: expected one of {}", in_quotes(word), list)
                       : fmt::format("no verb {}: did you mean '{}'?", in_quotes(word), close));
}

/// The subcommand that the first words name, and how many words there are.
std::pair<CLI::App&, std::ptrdiff_t> named_verb(CLI::App& program,
                                                const std::vector<std::string>& arguments) {
  CLI::App* verb = &program;
  std::ptrdiff_t words = 0;
  for (const std::string& word : arguments) {
    const auto inner = verb->get_subcommands({});
    const auto found =
        std::ranges::find(inner, word, [](const CLI::App* one) { return one->get_name(); });
    if (found == inner.end()) break;
    verb = *found;
    ++words;
  }
  return {*verb, words};
}

/// The subcommand that the command line chose, innermost first.
template <typename App>
App* chosen(App* app) {
  const auto parsed = app->get_subcommands();
  return parsed.empty() ? app : chosen(parsed.back());
}

std::string command_of(const CLI::App* app) {
  return app->get_parent() == nullptr ? "longformer"
                                      : command_of(app->get_parent()) + " " + app->get_name();
}

/// Fault of the command line, with the option that may have been meant.
std::string explain(const CLI::ParseError& error, const CLI::App& program,
                    const std::vector<std::string>& typed) {
  const CLI::App* verb = chosen(&program);
  std::string message = with_typed_option(error, *verb, typed);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> options;
    for (const CLI::Option* option : verb->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    std::vector<std::string> unknown = program.remaining(true);
    const auto option = std::find_if(unknown.begin(), unknown.end(),
                                     [](const std::string& text) { return text.starts_with('-'); });
    std::string word = option != unknown.end() ? *option : unknown.at(0);
    word.resize(std::min(word.find('='), word.size()));
    message = fmt::format("{} {}", word.starts_with('-') ? "unknown option" : "unexpected",
                          in_quotes(word));
    const std::string close =
        word.starts_with('-') ? nearest(word.substr(0, kLongestWord), options) : "";
    if (!close.empty()) message += fmt::format(": did you mean '{}'?", close);
  }
  return fmt::format("{}; see '{} --help'", message, command_of(verb));
}

void add_verbs(CLI::App& program, Action& action) {
  add_info(program, action);
  add_pull(program, action);
  add_tokenize(program, action);
  add_embed(program, action);
  add_search(program, action);
  add_rerank(program, action);
  add_serve(program, action);
  add_fill_mask(program, action);
  add_classify(program, action);
  add_ner(program, action);
  add_coref(program, action);
  add_qa(program, action);
  add_choose(program, action);
  add_evaluate(program, action);
  add_finetune(program, action);
  add_pretrain_mlm(program, action);
  add_pretrain_lm(program, action);
  add_summarize(program, action);
  add_generate(program, action);
  add_attention(program, action);
  add_convert(program, action);
  add_compare(program, action);
  add_bench(program, action);
  add_completion(program, action);
  add_man(program, action);
}

/// --quiet of every verb. Each value of a list has its own option, or stands between commas: words
/// behind an option are places.
void add_quiet(CLI::App& program, bool& quiet) {
  for (CLI::App* verb : program.get_subcommands({})) {
    for (CLI::Option* option : verb->get_options()) {
      if (option->nonpositional() && option->get_expected_max() > 1) {
        option->allow_extra_args(false);
      }
    }
    verb->add_flag("--quiet", quiet, "no notes and no progress on stderr, only errors");
    add_quiet(*verb, quiet);
  }
}

/// The program after its verb is known: what the action says, in the words of the command line.
int work(const Action& action, CLI::App& verb, bool quiet, const std::vector<std::string>& typed) {
  const std::vector<std::string> written = checked_outputs(verb);
  std::optional<StopSignals> signals;
  if (!written.empty()) {
    signals.emplace([written] {
      for (const std::string& file : written) unlink(temporary_name(file).c_str());
    });
  }
  Messages messages(quiet);
  try {
    check_together(verb, messages);
    fetch_models(verb, messages);
    if (action) action(messages);
  } catch (const UsageError& error) {
    throw UsageError(with_typed_option(error, verb, typed));
  } catch (const Error& error) {
    if (const auto usage = usage_error_of(error, verb, typed)) throw *usage;
    throw;
  }
  Output().finish();
  return messages.exit_code();
}

int run(int count, char** values) {
  CLI::App program(kDescription, "longformer");
  program.formatter(std::make_shared<HelpFormatter>());
  program.footer(kFooter);
  program.set_version_flag("--version", kVersion, "print the version");
  program.set_help_flag("-h,--help", "print this help");
  Action action;
  bool quiet = false;
  add_verbs(program, action);
  add_quiet(program, quiet);
  // A verb stands in the first place alone: further on its name is that of a folder or file.
  program.require_subcommand(0, 1);

  const std::vector<std::string> typed(values + 1, values + count);
  const std::vector<std::string> arguments = normalized(typed);
  check_verb(program, arguments);
  try {
    const auto [verb, behind] = named_verb(program, arguments);
    check_values(verb, {arguments.begin() + behind, arguments.end()});
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw UsageError(explain(error, program, typed));
    std::ostringstream text;
    program.exit(error, text, text);
    Output output;
    output.write(text.str());
    output.finish();
    return kSuccess;
  } catch (const UsageError& error) {
    throw UsageError(with_typed_option(error, *chosen(&program), typed));
  }
  return work(action, *chosen(&program), quiet, typed);
}

}  // namespace
}  // namespace longformer::cli

int main(int count, char** values) {
  using namespace longformer::cli;
  // A reader that goes away ends the program through BrokenPipe, after files are in their place.
  std::signal(SIGPIPE, SIG_IGN);
  // Files that may not grow are an error of writing, told as such.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(count, values);
  } catch (const BrokenPipe&) {
    // Nothing more can be written; leaving normally would try again.
    std::_Exit(kSuccess);
  } catch (const UsageError& error) {
    print_error(error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::exception& error) {
    print_error(advised(error));
  }
  return kFailure;
}
