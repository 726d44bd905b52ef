#!/usr/bin/env python3
"""Fails when a test was skipped that is not on the list of allowed skips.

Usage: check_skips.py [--without THING]... ALLOWED JUNIT_XML... Reads the JUnit files of ctest and pytest. A line of
ALLOWED is a shell pattern of test names, `data: PATTERN` for a test that may be skipped only where
the data sets (LONGFORMER_DATA) are absent, `browser: PATTERN` for one that may be only where there
is no chromium with its chromedriver, `corpora: PATTERN` for one that may be only where there is no Java or no
environment of requirements/corpora.txt (LONGFORMER_CORPORA), `documents: PATTERN` for one that may be only where
there is no pdftotext, `opencl: PATTERN` for one that may be only where no driver of OpenCL is installed, or a comment. `--without opencl`
says that the build of the tests cannot use what the machine has. Silent when all is well.
"""

import argparse
import fnmatch
import os
import pathlib
import shutil
import sys
import xml.etree.ElementTree as ElementTree


def absences():
    """Things that this machine lacks, by the words before patterns."""
    return {
        "data": not os.environ.get("LONGFORMER_DATA"),
        "browser": not (shutil.which("chromium") and shutil.which("chromedriver")),
        "documents": not shutil.which("pdftotext"),
        "opencl": not list(pathlib.Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")).glob("*.icd")),
        "corpora": not (shutil.which("java") and os.path.exists(os.environ.get("LONGFORMER_CORPORA", "") + "/stamp")),
    }


def allowed_patterns(path, absent):
    """The patterns that hold on this machine."""
    patterns = []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        what, colon, pattern = line.partition(": ")
        if colon and what in absent:
            if absent[what]:
                patterns.append(pattern.strip())
        elif line:
            patterns.append(line)
    return patterns


def outcomes(path):
    """(name, whether it was skipped) of every test of a JUnit file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        module = case.get("classname", "")
        name = case.get("name", "")
        full = name if module in ("", name) else f"{module}.{name}"
        not_run = case.get("status") in ("notrun", "disabled")
        yield full, not_run or case.find("skipped") is not None


def main():
    absent = absences()
    parser = argparse.ArgumentParser()
    parser.add_argument("--without", action="append", default=[], choices=absent)
    parser.add_argument("allowed")
    parser.add_argument("reports", nargs="+")
    options = parser.parse_args()
    absent.update(dict.fromkeys(options.without, True))
    patterns = allowed_patterns(options.allowed, absent)
    failed = False
    for report in options.reports:
        tests = list(outcomes(report))
        if not tests:
            print(f"{report}: no test ran")
            failed = True
        for name, skipped in tests:
            if skipped and not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                print(f"skipped without leave: {name} (allowed skips are in {options.allowed})")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
