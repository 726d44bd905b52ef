// longformer completion: what shells complete, made of the verbs and options that there are.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "output.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

using Verbs = std::vector<const CLI::App*>;

Verbs verbs_of(const CLI::App& app) { return app.get_subcommands({}); }

/// The options of a verb that --help shows.
std::vector<const CLI::Option*> options_of(const CLI::App& verb) {
  std::vector<const CLI::Option*> options = verb.get_options();
  std::erase_if(options, [](const CLI::Option* option) {
    return option->get_group().empty() || !option->nonpositional();
  });
  return options;
}

bool takes_value(const CLI::Option& option) { return option.get_type_size() != 0; }

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// The first line of a text, without its last full stop.
std::string summary(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.ends_with('.')) line.pop_back();
  return line;
}

/// "bench attention": the verbs on the way to one, without the program.
std::string path_of(const CLI::App& verb) {
  const CLI::App* parent = verb.get_parent();
  if (parent == nullptr) return "";
  const std::string before = path_of(*parent);
  return before.empty() ? verb.get_name() : before + " " + verb.get_name();
}

/// The words that may follow a verb, and then those of the verbs below it.
void add_bash_case(const CLI::App& verb, std::string& cases) {
  std::string words, with_value;
  for (const CLI::App* below : verbs_of(verb)) words += below->get_name() + " ";
  for (const CLI::Option* option : options_of(verb)) {
    for (const std::string& name : names_of(*option)) {
      words += name + " ";
      if (takes_value(*option)) with_value += name + " ";
    }
  }
  cases += fmt::format("    '{}') words='{}' values='{}' ;;\n", path_of(verb), words, with_value);
  for (const CLI::App* below : verbs_of(verb)) add_bash_case(*below, cases);
}

std::string bash(const CLI::App& program) {
  std::string cases, paths;
  add_bash_case(program, cases);
  for (const CLI::App* verb : verbs_of(program)) {
    for (const CLI::App* below : verbs_of(*verb)) paths += fmt::format("'{}'|", path_of(*below));
  }
  if (paths.ends_with('|')) paths.pop_back();
  return fmt::format(
      R"(# Completion of longformer for bash: source it, or put it where bash-completion looks.
_longformer() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} verb='' words values
  if (( COMP_CWORD > 1 )); then verb=${{COMP_WORDS[1]}}; fi
  if (( COMP_CWORD > 2 )); then
    case "$verb ${{COMP_WORDS[2]}}" in {}) verb+=" ${{COMP_WORDS[2]}}" ;; esac
  fi
  case "$verb" in
{}  esac
  COMPREPLY=()
  if [[ " $values " == *" $prev "* || ( $cur != -* && $COMP_CWORD -gt 1 && $words != [a-z]* ) ]]; then
    compopt -o default 2>/dev/null
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -F _longformer longformer
)",
      paths.empty() ? "''" : paths, cases);
}

/// A text inside single quotes of zsh and fish.
std::string single_quoted(std::string_view text, std::string_view escaped) {
  std::string result;
  for (const char character : text) {
    if (character == '\'') {
      result += "'\\''";
    } else {
      if (escaped.find(character) != std::string_view::npos) result += '\\';
      result += character;
    }
  }
  return result;
}

/// Words that may follow a verb, which has `depth` words before it.
void add_zsh_case(const CLI::App& verb, std::size_t depth, std::string& text) {
  const std::string indent(4 * depth, ' ');
  const Verbs below = verbs_of(verb);
  if (!below.empty()) {
    text += fmt::format("{}if (( CURRENT == {} )); then\n{}  local -a verbs=(\n", indent, depth + 1,
                        indent);
    for (const CLI::App* one : below) {
      text += fmt::format("{}    '{}:{}'\n", indent, one->get_name(),
                          single_quoted(summary(one->get_description()), ":"));
    }
    text += fmt::format("{0}  )\n{0}  _describe verb verbs\n{0}else\n{0}  case $words[{1}] in\n",
                        indent, depth + 1);
    for (const CLI::App* one : below) {
      text += fmt::format("{}  {})\n", indent, one->get_name());
      add_zsh_case(*one, depth + 1, text);
      text += indent + "  ;;\n";
    }
    text += fmt::format("{0}  esac\n{0}fi\n", indent);
    return;
  }
  text += indent + "_arguments";
  for (const CLI::Option* option : options_of(verb)) {
    for (const std::string& name : names_of(*option)) {
      text += fmt::format(" \\\n{}  '*{}[{}]{}'", indent, name,
                          single_quoted(summary(option->get_description()), "[]"),
                          takes_value(*option) ? ":value:_files" : "");
    }
  }
  text += fmt::format(" \\\n{}  '*:file:_files'\n", indent);
}

std::string zsh(const CLI::App& program) {
  std::string text = "#compdef longformer\n_longformer() {\n";
  add_zsh_case(program, 1, text);
  return text + "}\n_longformer \"$@\"\n";
}

void add_fish_lines(const CLI::App& verb, std::string& text) {
  for (const CLI::Option* option : options_of(verb)) {
    text +=
        fmt::format("complete -c longformer -n '__fish_seen_subcommand_from {}'", verb.get_name());
    for (const std::string& name : option->get_snames()) text += " -s " + name;
    for (const std::string& name : option->get_lnames()) text += " -l " + name;
    if (takes_value(*option)) text += " -r";
    text += fmt::format(" -d '{}'\n", single_quoted(summary(option->get_description()), ""));
  }
  for (const CLI::App* below : verbs_of(verb)) {
    text += fmt::format(
        "complete -c longformer -n '__fish_seen_subcommand_from {}' -a {} -d '{}'\n",
        verb.get_name(), below->get_name(), single_quoted(summary(below->get_description()), ""));
    add_fish_lines(*below, text);
  }
}

std::string fish(const CLI::App& program) {
  std::string text;
  for (const CLI::App* verb : verbs_of(program)) {
    text += fmt::format("complete -c longformer -n __fish_use_subcommand -a {} -d '{}'\n",
                        verb->get_name(), single_quoted(summary(verb->get_description()), ""));
    add_fish_lines(*verb, text);
  }
  return text;
}

}  // namespace

void add_completion(CLI::App& program, Action& action) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& verb =
      add_verb(program, {.name = "completion",
                         .description = "Print what a shell needs to complete verbs and options.",
                         .examples = "source <(longformer completion bash)\n"
                                     "longformer completion zsh > ~/.zfunc/_longformer\n"
                                     "longformer completion fish > "
                                     "~/.config/fish/completions/longformer.fish"});
  verb.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}))
      ->type_name("");
  verb.callback([shell, &program, &action] {
    action = [shell, &program](Messages&) {
      Output().write(*shell == "bash"  ? bash(program)
                     : *shell == "zsh" ? zsh(program)
                                       : fish(program));
    };
  });
}

}  // namespace longformer::cli
