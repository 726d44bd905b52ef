#!/usr/bin/env python3
"""Installs the Debian packages of FOLDER in a minimal root of this machine's Debian, uses them there and removes them.

Usage: deb_test.py FOLDER PROGRAM. The PROGRAM of the build that made the packages gives the numbers to compare with.
Needs root, debootstrap and the network.
"""

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
#: Largest exposure in tenths that `systemd-analyze security` may find.
EXPOSURE = 30


def packages_of(folder):
    found = {name: sorted(folder.glob(f"{name}_*.deb")) for name in ("longformer", "longformer-dev")}
    for name, files in found.items():
        expect(len(files), 1, f"packages {name} in {folder}")
        print(f"{files[0].name}: {files[0].stat().st_size / 1e6:.1f} MB")
    return {name: files[0] for name, files in found.items()}


def check_by_lintian(packages):
    """In a root that has lintian and its hundred packages; errors end the test, the rest is shown."""
    with roots.Root(roots.suite_of_this_machine()) as root:
        root.run(f"apt-get update -qq && {INSTALL} lintian")
        (root.path / "packages").mkdir()
        for file in packages.values():
            shutil.copy(file, root.path / "packages")
        print(root.run("lintian --allow-root --fail-on error /packages/*.deb"), end="")


def check_program(root, program):
    """The program with nothing but what it depends on."""
    root.run(f"{INSTALL} /packages/longformer_*.deb")
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    expect(root.run(["longformer", "--version"]), version, "longformer --version")
    embed = ["embed", "--text", TEXT, "--json", "--threads", "1"]
    ours = subprocess.run([program, "embed", MODEL, *embed[1:]], stdout=subprocess.PIPE, text=True, check=True).stdout
    expect(root.run(["longformer", "embed", "/model", *embed[1:]]), ours, "vectors in the root")
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
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    roots.alone()
    packages = packages_of(pathlib.Path(sys.argv[1]).resolve())
    with step("lintian"):
        check_by_lintian(packages)
    with step("a minimal root"):
        root = roots.Root(roots.suite_of_this_machine())
    with root:
        (root.path / "packages").mkdir()
        for file in packages.values():
            shutil.copy(file, root.path / "packages")
        shutil.copytree(MODEL, root.path / "model")
        shutil.copytree(ROOT / "examples" / "embed", root.path / "embed")
        before = root.bytes()
        root.run("apt-get update -qq")
        with step("the program: apt-get install, vectors, pages, pull"):
            check_program(root, sys.argv[2])
        print(f"installed with its libraries: {(root.bytes() - before) / 1e6:.0f} MB, lists and archives of apt included")
        with step("the units: systemd-analyze verify and security"):
            check_units(root)
        with step("the library: a program of its own"):
            check_library(root)
        with step("apt-get purge"):
            check_removal(root)


if __name__ == "__main__":
    main()
