#!/usr/bin/env python3
"""Passes the output of ctest on and puts the slowest tests before its summary.

    ctest … | slowest.py BUILD [COUNT]

A test program that leaves the times of its cases in BUILD/junit-NAME.xml is shown by these.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# 12/34 Test #56: Suite.Case ......   Passed    0.78 sec
RESULT = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) .*?\s([\d.]+) sec\s*$")
SUMMARY = re.compile(r"^\d+% tests passed")


def cases(build, name, seconds):
    """(seconds, name) of a test, or of its cases where it left them."""
    report = build / f"junit-{name}.xml"
    if not report.is_file():
        return [(seconds, name)]
    found = ElementTree.parse(report).getroot().iter("testcase")
    return [(float(c.get("time", 0)), f"{c.get('classname')}.{c.get('name')}") for c in found]


def table(tests, count):
    """Lines that name the slowest tests and what all of them took."""
    total = sum(seconds for seconds, _ in tests)
    yield f"\nThe slowest {min(count, len(tests))} of {len(tests)} tests, which took {total:.0f} s one after another:\n"
    for seconds, name in sorted(tests, reverse=True)[:count]:
        yield f"{seconds:8.2f} s  {name}\n"


def main():
    build, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    tests = []
    for line in sys.stdin:
        result = RESULT.match(line)
        if result:
            tests += cases(build, result[1], float(result[2]))
        elif SUMMARY.match(line):
            sys.stdout.writelines([*table(tests, count), "\n"])
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
