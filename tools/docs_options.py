#!/usr/bin/env python3
"""Writes docs/options.md, every option of every verb, from `longformer VERB --help`.

    tools/docs_options.py [--binary build/longformer] [--check]

--check writes nothing, and ends with 1 where the page differs from the program.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "options.md"
#: Column where explanations begin in a help.
COLUMN = 30
#: An option that so many verbs have in the same words stands in one table for all of them.
SHARED = 3
HEAD = """# Options

After this page you know every option of every verb. Generated from `longformer VERB --help` by `tools/docs_options.py`; a test compares this page with the program. The value in parentheses is the default.
An option that three verbs or more have in the same words stands under [shared options](#shared-options) only.
"""


def help_of(binary, *verb):
    done = subprocess.run([binary, *verb, "--help"], check=True, capture_output=True, text=True)
    return done.stdout


def subcommands(text):
    """Names below "Subcommands:", with their descriptions."""
    found, inside = {}, False
    for line in text.splitlines():
        if line == "Subcommands:":
            inside = True
        elif inside and (match := re.match(r"  (\S+) +(.*)", line)):
            found[match[1]] = match[2]
        elif inside and line:
            break
    return found


def options_of(text):
    """(group, names with type, explanation) of each option, in order."""
    found, group = [], ""
    for line in text.splitlines():
        if line in ("Examples:", "Example:", "Subcommands:", "Positionals:"):
            group = ""
        elif match := re.fullmatch(r"([A-Z][^.]*):", line):
            group = match[1]
        elif group and line.startswith("  -"):
            # Names end before the column of the explanations, or fill a line of their own: "--long-name NAME".
            aside = len(line) > COLUMN and line[COLUMN - 1] == " " and not re.fullmatch("[A-Z]+", line[COLUMN:])
            found.append([group, line[:COLUMN].strip(), line[COLUMN:]] if aside else [group, line.strip(), ""])
        elif group and found and re.match(r" {20,}\S", line):
            found[-1][2] = f"{found[-1][2]} {line.strip()}".strip()
    return [tuple(option) for option in found]


def programs(binary):
    """Every verb, and verbs below verbs: name to help."""
    found = {}
    for verb in subcommands(help_of(binary)):
        found[verb] = help_of(binary, verb)
        for below in subcommands(found[verb]):
            found[f"{verb} {below}"] = help_of(binary, verb, below)
    return found


def cell(text):
    return re.sub(r"([|<>*_])", r"\\\1", text)


def names_of(option):
    """`-o`, `--output` FILE of "-o,--output FILE"."""
    names, *type_name = option.split(" ", 1)
    shown = ", ".join(f"`{re.sub(r'{.*}', '', name)}`" for name in names.split(","))
    return " ".join([shown, *map(cell, type_name)])


def summary(text):
    return text.split("\nUsage:")[0].strip().split("\n")[0]


def page(binary):
    helps = programs(binary)
    options = {verb: [one for one in options_of(text) if "--help" not in one[1]] for verb, text in helps.items()}
    users = collections.defaultdict(list)
    for verb, found in options.items():
        for _, names, text in found:
            users[names, text].append(verb)
    shared = {key for key, verbs in users.items() if len(verbs) >= SHARED}
    lines = [HEAD]
    for verb, found in options.items():
        lines += [f"## {verb}\n", f"{cell(summary(helps[verb]))}\n"]
        own = [one for one in found if one[1:] not in shared]
        group = None
        for name, names, text in own:
            if name != group:
                lines += ([""] if group else []) + [f"| {name} | |", "|---|---|"]
                group = name
            lines.append(f"| {names_of(names)} | {cell(text)} |")
        if own:
            lines.append("")
        also = [f"`--{re.search(r'--([a-z0-9-]+)', names)[1]}`" for _, names, text in found if (names, text) in shared]
        if also:
            lines.append(f"Shared: {', '.join(also)}.\n")
    lines += ["## shared options\n", "| option | | verbs |", "|---|---|---|"]
    for names, text in sorted(shared, key=lambda key: (re.search(r"--(\S+)", key[0])[1], key)):
        lines.append(f"| {names_of(names)} | {cell(text)} | {', '.join(users[names, text])} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build" / "longformer"))
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    made = page(chosen.binary)
    if not chosen.check:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        sys.exit("error: docs/options.md differs from the program: run tools/docs_options.py")


if __name__ == "__main__":
    main()
