#!/usr/bin/env python3
"""Installs the Debian packages of FOLDER in a minimal root of their Debian, uses them there and removes them.

Usage: deb_test.py FOLDER PROGRAM [SUITE]. The PROGRAM gives the numbers to compare with; it is of the build that made the
packages, or, where SUITE is not that of this machine, of another one. Needs root, debootstrap and the network.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import roots
from roots import expect, expect_in, step

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = ROOT / "tests" / "fixtures" / "sentence_dense"
TEXT = "he was in the house"
INSTALL = "apt-get install -y -qq --no-install-recommends"
PAGES = [
    "/usr/bin/longformer", "/usr/share/man/man1/longformer.1.gz", "/usr/share/bash-completion/completions/longformer",
    "/usr/share/zsh/vendor-completions/_longformer", "/usr/share/fish/vendor_completions.d/longformer.fish",
    "/usr/lib/systemd/system/longformer@.service", "/usr/lib/systemd/system/longformer@.socket",
    "/usr/share/doc/longformer/copyright", "/usr/share/doc/longformer/changelog.gz",
]  # fmt: skip
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
#: Largest exposure in tenths that `systemd-analyze security` may find.
EXPOSURE = 30


def packages_of(folder):
    found = {name: sorted(folder.glob(f"{name}_*.deb")) for name in ("longformer", "longformer-dev")}
    for name, files in found.items():
        expect(len(files), 1, f"packages {name} in {folder}")
        print(f"{files[0].name}: {files[0].stat().st_size / 1e6:.1f} MB")
    return {name: files[0] for name, files in found.items()}


def check_by_lintian(packages, suite):
    """In a root that has lintian and its hundred packages; errors end the test, the rest is shown."""
    with roots.Root(suite) as root:
        root.run(f"apt-get update -qq && {INSTALL} lintian")
        (root.path / "packages").mkdir()
        for file in packages.values():
            shutil.copy(file, root.path / "packages")
        print(root.run("lintian --allow-root --fail-on error /packages/*.deb"), end="")


def check_vectors(ours, found, exact):
    """Another Debian has another oneDNN, which rounds otherwise."""
    if exact:
        expect(found, ours, "vectors in the root")
        return
    ours, found = (json.loads(text)["embedding"] for text in (ours, found))
    expect(len(found), len(ours), "numbers of a vector in the root")
    expect(max(abs(a - b) for a, b in zip(ours, found)) < 1e-5, True, "vectors in the root within 1e-5")


def check_pdf(root):
    """Without pdftotext a PDF is one line that names the package."""
    root.at("/book.pdf").write_bytes(PDF)
    said = root.run(["longformer", "embed", "/model", "/book.pdf", "-o", "/tmp/vectors.jsonl", "--threads", "1"], code=1)
    print(said, end="")
    expect(len(said.splitlines()), 1, "lines about a PDF without pdftotext")
    expect_in("install the package poppler-utils", said, "a PDF without pdftotext")


def check_program(root, program, exact):
    """The program with nothing but what it depends on."""
    root.run(f"{INSTALL} /packages/longformer_*.deb")
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    expect(root.run(["longformer", "--version"]), version, "longformer --version")
    embed = ["embed", "--text", TEXT, "--json", "--threads", "1"]
    ours = subprocess.run([program, "embed", MODEL, *embed[1:]], stdout=subprocess.PIPE, text=True, check=True).stdout
    check_vectors(ours, root.run(["longformer", "embed", "/model", *embed[1:]]), exact)
    check_pdf(root)
    for page in PAGES:
        expect(root.at(page).is_file(), True, page)
    expect_in("complete -F _longformer longformer", root.run(["bash", "-c", f"source {PAGES[2]}; complete -p longformer"]), "completion")
    expect_in("longformer serve", root.run(f"zcat {PAGES[1]} | sed 's/\\\\//g'"), "manual page")
    # Nothing can be fetched yet, and the message names the package.
    expect_in("libcurl4", root.run(["longformer", "pull", "org/name"], code=1), "pull without libcurl")
    root.run("apt-get install -y -qq --install-recommends libcurl4 ca-certificates")
    said = root.run(["longformer", "pull", "org/name"], code=1, environment={"HF_ENDPOINT": "http://127.0.0.1:1"})
    if "libcurl4" in said:
        sys.exit(f"pull with libcurl: {said}")


def check_units(root):
    root.run(f"{INSTALL} systemd")
    said = root.run(["systemd-analyze", "verify", "--man=no", "longformer@model.service", "longformer@model.socket"])
    ours = [line for line in said.splitlines() if "longformer" in line]
    expect(ours, [], "systemd-analyze verify")
    said = root.run(["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", "/usr/lib/systemd/system/longformer@.service"])
    print(said.splitlines()[-1].strip())


def check_library(root):
    root.run(f"{INSTALL} /packages/longformer-dev_*.deb g++ cmake ninja-build")
    root.run("cmake -S /embed -B /tmp/build -G Ninja && cmake --build /tmp/build")
    said = root.run(["/tmp/build/embed", "/model", TEXT, "she was"])
    expect_in("she was", said, "examples/embed")
    shutil.rmtree(root.at("/tmp/build"))


def check_removal(root):
    root.run("apt-get purge -y -qq longformer longformer-dev")
    left = root.run("find / -xdev -name '*longformer*' -not -path '/packages*'")
    expect(left, "", "what a purge leaves")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    roots.alone()
    here = roots.suite_of_this_machine()
    suite = sys.argv[3] if len(sys.argv) == 4 else here
    packages = packages_of(pathlib.Path(sys.argv[1]).resolve())
    with step("lintian"):
        check_by_lintian(packages, suite)
    with step(f"a minimal root of {suite}"):
        root = roots.Root(suite)
    with root:
        (root.path / "packages").mkdir()
        for file in packages.values():
            shutil.copy(file, root.path / "packages")
        shutil.copytree(MODEL, root.path / "model")
        shutil.copytree(ROOT / "examples" / "embed", root.path / "embed")
        before = root.bytes()
        root.run("apt-get update -qq")
        with step("the program: apt-get install, vectors, PDF, pages, pull"):
            check_program(root, sys.argv[2], suite == here)
        print(f"installed with its libraries: {(root.bytes() - before) / 1e6:.0f} MB, lists and archives of apt included")
        with step("the units: systemd-analyze verify and security"):
            check_units(root)
        with step("the library: a program of its own"):
            check_library(root)
        with step("apt-get purge"):
            check_removal(root)


if __name__ == "__main__":
    main()
