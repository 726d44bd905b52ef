#!/usr/bin/env python3
"""Holds the files to the rules of the house that no compiler knows.

Files of at most 700 lines, functions of at most 80 lines, `#pragma once` in headers, no words that
mark unfinished work, comments that begin with the thing they are about, includes of files that are there, the algorithms
of the standard library included where they are used: g++ 12 brings them with other headers, g++ 14 does not. Usage: check_rules.py [ROOT]. Prints one line per
breach and exits 1 when there is one.
"""

import ast
import pathlib
import re
import subprocess
import sys

from comments import beginnings

FILE_LINES = 700
FUNCTION_LINES = 80
CPP = {".h", ".cc"}
TEXT = CPP | {".py", ".pyi", ".sh", ".cmake", ".md", ".toml", ".json"}
NAMES = {"Makefile", "CMakeLists.txt", "run"}
# Split, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|\b[Ss]t" r"ub\b")
# Such a comment points at a thing instead of naming it.
POINTING = re.compile(
    r"(?:Of|With|As|What|Where|Whose|That of)\b"
    r"|The same(?:[.,:;]|$| (?:again|as|back|but|by|for|from|in|of|on|over|to|twice|whether|with|without)\b)"
)
# Data that is long by nature.
DATA_FOLDERS = ("fixtures", "data")

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"""
    r"""|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.DOTALL | re.MULTILINE,
)
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern|concept)\b")

# Names of these headers; std::move and the two std::remove have other homes as well.
ALGORITHM_NAMES = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count count_if equal
        equal_range fill fill_n find find_end find_first_of find_if find_if_not for_each for_each_n generate generate_n
        includes inplace_merge is_heap is_partitioned is_permutation is_sorted is_sorted_until iter_swap
        lexicographical_compare lower_bound make_heap max_element merge min_element minmax minmax_element mismatch
        next_permutation none_of nth_element partial_sort partial_sort_copy partition partition_copy partition_point
        pop_heap prev_permutation push_heap remove_copy remove_if replace replace_copy replace_if reverse reverse_copy
        rotate rotate_copy sample search search_n set_difference set_intersection set_symmetric_difference set_union
        shuffle sort sort_heap stable_partition stable_sort swap_ranges transform unique unique_copy upper_bound""",
    "numeric": "accumulate adjacent_difference exclusive_scan gcd inclusive_scan inner_product iota lcm midpoint "
    "partial_sum reduce transform_reduce",
}
ALGORITHMS = {
    header: re.compile(rf"std::(?:ranges::)?(?:{'|'.join(names.split())})\s*\(") for header, names in ALGORITHM_NAMES.items()
}


INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def blank(match):
    """Keeps the line breaks of a comment, string or directive, so that lines still count."""
    return "\n" * match[0].count("\n")


def cpp_functions(text):
    """(first line, last line) of every function at namespace or class level."""
    code = TOKEN.sub(blank, text)
    functions, start, position, line, containers = [], 0, 0, 1, 0
    while position < len(code):
        character = code[position]
        if character in ";}":
            start = position + 1
        elif character == "{":
            head = code[start:position]
            is_container = CONTAINER.search(re.sub(r"template\s*<[^{]*?>", "", head.split("(")[0]))
            if is_container and "(" not in head.replace("__attribute__((", ""):
                start = position + 1
                position += 1
                continue
            end = matching_brace(code, position)
            if not head.rstrip().endswith("="):
                first = code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
                functions.append((first, code.count("\n", 0, end) + 1))
            position = end
            start = end + 1
        position += 1
    return functions


def matching_brace(code, position):
    """Position of the brace that closes the one at `position`, or the end of the code."""
    depth = 0
    for match in re.finditer(r"[{}]", code[position:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return position + match.start()
    return len(code)


def python_functions(text):
    """(first line, last line) of every Python function."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(n.lineno, n.end_lineno) for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)]


def missing_includes(path, text):
    """Headers of algorithms that neither a file nor its own header includes."""
    own = path.with_suffix(".h")
    whole = text + (own.read_text(encoding="utf-8") if own.is_file() else "")
    return [h for h, used in ALGORITHMS.items() if used.search(text) and f"#include <{h}>" not in whole]


def missing_headers(name, text, headers):
    """Includes of files that are not in the tree, as of targets that are seldom built; generated ones end in .inc."""
    lost = [header for header in INCLUDE.findall(text) if not header.endswith(".inc") and header not in headers]
    return [f'{name}: includes "{header}", which no file is' for header in lost]


def headers_of(files, root):
    """The headers of a tree by every end of their paths."""
    parts = [path.relative_to(root).parts for path in files if path.suffix == ".h"]
    return {"/".join(path[first:]) for path in parts for first in range(len(path))}


def check_file(path, name):
    """All breaches of one file as lines."""
    text = path.read_text(encoding="utf-8")
    breaches = []
    lines = text.count("\n")
    if path.suffix in CPP | {".py", ".sh", ".cmake"} and lines > FILE_LINES:
        breaches.append(f"{name}: {lines} lines, at most {FILE_LINES}")
    # A header that Highway includes once per instruction set guards itself.
    per_target = name.endswith(("-inl.h", "_inl.h"))
    if path.suffix == ".h" and not per_target and "#pragma once" not in text:
        breaches.append(f"{name}: a header without #pragma once")
    functions = []
    if path.suffix in CPP:
        breaches += [f"{name}: uses <{header}> and does not include it" for header in missing_includes(path, text)]
        functions = cpp_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    for first, last in functions:
        if last - first + 1 > FUNCTION_LINES:
            size = last - first + 1
            breaches.append(f"{name}:{first}: a function of {size} lines, at most {FUNCTION_LINES}")
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            breaches.append(f"{name}:{number}: a word that marks unfinished work")
    return breaches + pointing_comments(path, name, text)


def pointing_comments(path, name, text):
    """Comments that begin with a word of POINTING."""
    found = [(line, POINTING.match(words)) for line, words in beginnings(path, text)]
    return [f"{name}:{line}: a comment that begins with '{match[0].rstrip('.,:;')}': name the thing" for line, match in found if match]


def tree_files(root):
    """The files under version control, or all files where there is none."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [root / name for name in names.split("\0") if name]
    return [path for path in root.rglob("*") if path.is_file()]


def check_tree(root):
    """All breaches of a tree."""
    root = pathlib.Path(root).resolve()
    breaches = []
    files = sorted(tree_files(root))
    headers = headers_of(files, root)
    for path in files:
        name = path.relative_to(root).as_posix()
        if not path.is_file():
            continue
        if any(part in DATA_FOLDERS for part in path.relative_to(root).parts):
            if path.suffix == ".py":
                breaches += pointing_comments(path, name, path.read_text(encoding="utf-8"))
        elif path.suffix in TEXT or path.name in NAMES:
            breaches += check_file(path, name)
        if path.suffix in CPP:
            breaches += missing_headers(name, path.read_text(encoding="utf-8"), headers)
    return breaches


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    breaches = check_tree(root)
    print("\n".join(breaches), end="\n" if breaches else "")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
