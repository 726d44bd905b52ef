// longformer man: the manual page, made of the help.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "output.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

/// A text as roff reads it: no line begins with a command, and a hyphen is one that can be copied.
std::string roff(std::string_view text) {
  std::string result;
  for (const char character : text) {
    const bool at_line_start = result.empty() || result.back() == '\n';
    if (at_line_start && (character == '.' || character == '\'')) result += "\\&";
    if (character == '\\') {
      result += "\\e";
    } else if (character == '-') {
      result += "\\-";
    } else {
      result += character;
    }
  }
  return result;
}

std::string command_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? "longformer"
                                     : command_of(*app.get_parent()) + " " + app.get_name();
}

void add_option_text(const CLI::Option& option, std::string& page) {
  std::string names;
  const auto add = [&names](const std::string& name) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
  };
  if (option.nonpositional()) {
    for (const std::string& name : option.get_snames()) add("-" + name);
    for (const std::string& name : option.get_lnames()) add("--" + name);
  } else {
    add(option.get_name(true));
  }
  const bool shows_type = option.get_type_size() != 0 && !option.get_type_name().empty();
  if (shows_type) names += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
  page += fmt::format(".TP\n{}\n{}\n", names, roff(option.get_description()));
}

/// A verb and those below it; exit codes stand once for all.
void add_verb_text(const CLI::App& verb, std::string& page) {
  page += fmt::format(".SS {}\n{}\n", roff(command_of(verb)), roff(verb.get_description()));
  std::vector<std::string> groups;
  std::map<std::string, std::vector<const CLI::Option*>> options;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string& group = option->get_group();
    if (group.empty()) continue;
    if (!options.contains(group)) groups.push_back(group);
    options[group].push_back(option);
  }
  for (const std::string& group : groups) {
    if (group != "Options") page += fmt::format(".PP\n\\fI{}\\fR\n", roff(group));
    for (const CLI::Option* option : options[group]) add_option_text(*option, page);
  }
  const std::string footer = verb.get_footer();
  const std::string examples = footer.substr(0, footer.rfind("\nExit codes:"));
  if (!examples.empty()) page += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(examples));
  for (const CLI::App* below : verb.get_subcommands({})) add_verb_text(*below, page);
}

std::string manual(const CLI::App& program) {
  std::string page = fmt::format(
      ".TH LONGFORMER 1\n.SH NAME\nlongformer \\- long\\-document transformers\n"
      ".SH SYNOPSIS\n\\fBlongformer\\fR \\fIVERB\\fR \\fIMODEL\\fR [\\fIINPUT\\fR...] "
      "[\\fIoptions\\fR]\n.SH DESCRIPTION\n{}\n.SH VERBS\n",
      roff(program.get_description()));
  for (const CLI::App* verb : program.get_subcommands({})) add_verb_text(*verb, page);
  page +=
      ".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\nan input failed; the results of the others are "
      "kept\n.TP\n2\nwrong usage\n.TP\n128+N\nsignal N ended the work\n";
  return page;
}

}  // namespace

void add_man(CLI::App& program, Action& action) {
  CLI::App& verb =
      add_verb(program, {.name = "man",
                         .description = "Print the manual page, all of --help in one.",
                         .examples = "longformer man | man -l -\n"
                                     "longformer man > ~/.local/share/man/man1/longformer.1"});
  verb.callback(
      [&program, &action] { action = [&program](Messages&) { Output().write(manual(program)); }; });
}

}  // namespace longformer::cli
