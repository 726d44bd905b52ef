"""Runs of code points, as the tables of src/text hold them."""

import sys


def ranges(values):
    """[(first, last, value)] of runs of neighbours with one value."""
    result = []
    for c, value in values:
        if result and result[-1][1] == c - 1 and result[-1][2] == value:
            result[-1] = (result[-1][0], c, value)
        else:
            result.append((c, c, value))
    return result


def characters():
    """All code points that are characters: no surrogates."""
    return (c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)


def print_classes(name, title, script, comment, class_of, first=0):
    """A header with the class of each character from the first on, where class_of gives one that is not 0."""
    rows = ranges((c, value) for c in characters() if c >= first and (value := class_of(chr(c))) != 0)
    print(f"// {title}")
    print(f"// Written by tools/{script}; do not edit.\n#pragma once\n")
    print('#include "text/unicode_differences.h"\n\nnamespace longformer::text {\n')
    print(f"/// {comment}")
    print(f"inline constexpr CodePointRange {name}[] = {{")
    for start in range(0, len(rows), 4):
        cells = ("{%#x, %#x, %d}," % row for row in rows[start : start + 4])
        print("    " + " ".join(cells))
    print("};\n\n}  // namespace longformer::text")
