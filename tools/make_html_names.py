#!/usr/bin/env python3
"""Writes src/text/html_names.h: the named character references of HTML with what they stand for.

Python has the table of the standard (https://html.spec.whatwg.org/multipage/named-characters.html).

    python3 tools/make_html_names.py > src/text/html_names.h
"""

import html.entities

WIDTH = 100


def literal(character):
    if character in '"\\':
        return "\\" + character
    if character in "\t\n":
        return {"\t": "\\t", "\n": "\\n"}[character]
    if character.isascii():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def entry(name):
    mark = "=" if name in html.entities.html5 else ";"
    return name + mark + "".join(map(literal, html.entities.html5[name + ";"])) + " "


def lines(entries):
    line = ""
    for one in entries:
        if len(line) + len(one) > WIDTH - len('    "";'):
            yield line
            line = ""
        line += one
    yield line


def main():
    names = sorted({name.rstrip(";") for name in html.entities.html5})
    assert not any(set(value) & {" "} for value in html.entities.html5.values())
    print("// The named character references of HTML.")
    print("// Written by tools/make_html_names.py; do not edit.")
    print("#pragma once\n\n#include <string_view>\n\nnamespace longformer::text {\n")
    print("/// Names in the order of their bytes, each with a mark, its characters and a blank. The mark is =")
    print("/// where the name counts without a semicolon too, else ;.")
    print("inline constexpr std::string_view html_names =")
    body = [f'    "{line}"' for line in lines(map(entry, names))]
    print("\n".join(body) + ";")
    print("\n}  // namespace longformer::text")


if __name__ == "__main__":
    main()
