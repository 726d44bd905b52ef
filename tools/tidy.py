#!/usr/bin/env python3
"""clang-tidy over the sources of the library and the program; what has passed is not read again.

    tools/tidy.py [--base COMMIT] [--seconds N] [--sample | --changed] [--seed WORD] [--jobs N] [--checks LIST]
                  [--cache FOLDER] [--root FOLDER]

Without --base all sources are checked. With it: those that differ from that commit, and for each
header that differs a source that includes it. With --seconds as well, the others follow until the
time is over, first those that include a changed header, then the rest as the seed shuffles it; so
runs with different seeds come to all of them. With --sample the time limits all of it: what differs
comes first; with --changed it limits those sources, and reads no others. The configured build is build/tidy. --checks takes
the place of the list in .clang-tidy: "-*,clang-diagnostic-*" is what the compiler itself says.

A source that passes leaves its hash in the cache: of itself, of the project's headers that it
includes, of its compiler flags, and of clang-tidy and its configuration.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
SOURCES = ("src/*.cc", "apps/*.cc")


class Tree:
    """The files of a checkout and what they include of each other."""

    def __init__(self, root):
        self.root = root
        self.known = {}

    def git(self, *arguments):
        done = subprocess.run(["git", "-C", self.root, *arguments], capture_output=True, text=True)
        return done.stdout.split("\0") if done.returncode == 0 else None

    def sources(self):
        names = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", *SOURCES)
        return sorted(name for name in names or [] if (self.root / name).is_file())

    def changed(self, base):
        """Files that differ from a commit, with those git does not know yet; None: no such commit."""
        names = self.git("diff", "-z", "--name-only", "--diff-filter=d", base, "--")
        new = self.git("ls-files", "-z", "--others", "--exclude-standard")
        return None if names is None else {name for name in names + (new or []) if name}

    def includes(self, name):
        """The project's files that a file includes directly."""
        if name not in self.known:
            text = (self.root / name).read_text(encoding="utf-8")
            beside = pathlib.PurePosixPath(name).parent
            found = set()
            for header in INCLUDE.findall(text):
                for folder in (beside, *map(pathlib.PurePosixPath, ("src", "include", "apps/cli"))):
                    if (self.root / folder / header).is_file():
                        found.add((folder / header).as_posix())
                        break
            self.known[name] = found
        return self.known[name]

    def closure(self, name):
        """A file and everything of the project that it includes, near or far."""
        seen, left = {name}, [name]
        while left:
            for header in self.includes(left.pop()) - seen:
                seen.add(header)
                left.append(header)
        return seen


def in_order(tree, sources, changed, seed):
    """(sources to check in any case, the others in the order in which they follow)."""
    must = [name for name in sources if name in changed]
    seen = set().union(*(tree.closure(name) for name in must))
    headers = {name for name in changed if name.endswith(".h")}
    near = []
    for name in sources:
        if name in must:
            continue
        closure = tree.closure(name)
        if (closure & headers) - seen:
            must.append(name)
            seen |= closure
        elif closure & headers:
            near.append(name)
    rest = sorted(set(sources) - set(must) - set(near))
    for part in (near, rest):
        random.Random(seed).shuffle(part)
    return must, near + rest


class Cache:
    """Hashes of what has passed, as names of empty files."""

    def __init__(self, folder, tree, build, checks):
        self.folder = folder
        self.tree = tree
        folder.mkdir(parents=True, exist_ok=True)
        version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
        self.common = version + (tree.root / ".clang-tidy").read_bytes()
        self.common += (checks or "").encode()
        commands = json.loads((build / "compile_commands.json").read_text())
        self.commands = {
            os.path.relpath(entry["file"], tree.root): entry["command"].replace(str(tree.root), "")
            for entry in commands
        }

    def stamp(self, name):
        digest = hashlib.sha256(self.common + self.commands.get(name, "").encode())
        for part in sorted(self.tree.closure(name)):
            digest.update(part.encode() + b"\0" + (self.tree.root / part).read_bytes() + b"\0")
        return self.folder / digest.hexdigest()


def check(name, tree, build, checks, stamp):
    """Runs clang-tidy on one source; whether it passed."""
    command = ["clang-tidy", "--quiet", "-p", build, name]
    if checks:
        command.insert(1, f"--checks={checks}")
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if " warnings generated" not in line]
    if done.returncode == 0:
        stamp.touch()
    else:
        print(done.stdout + "\n".join(errors), flush=True)
    return done.returncode == 0


def check_all(tree, build, stamps, must, others, options):
    """Checks `must` and, while there is time, `others`: (number checked, number that failed)."""
    end = time.monotonic() + (options.seconds or 0)

    def one(name):
        if name in others and time.monotonic() > end:
            return None
        return check(name, tree, build, options.checks, stamps[name])

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, [*must, *others]))
    return len(results) - results.count(None), results.count(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", help="check what differs from this commit")
    parser.add_argument("--seconds", type=float, help="go on with other sources for so long")
    parser.add_argument("--sample", action="store_true", help="stop after --seconds in any case")
    parser.add_argument("--changed", action="store_true", help="only what differs, and stop after --seconds")
    parser.add_argument("--seed", default=str(time.time_ns()), help="draws the other sources")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    parser.add_argument("--cache", type=pathlib.Path, default=default / "longformer" / "tidy")
    parser.add_argument("--checks", help="in place of those in .clang-tidy")
    here = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=here, help="the checkout")
    options = parser.parse_args()

    tree, build = Tree(options.root), options.root / "build" / "tidy"
    cache = Cache(options.cache, tree, build, options.checks)
    sources = tree.sources()
    must, others = sources, []
    changed = tree.changed(options.base) if options.base else None
    if changed is not None:
        must, others = in_order(tree, sources, changed, options.seed)
    elif options.base:
        print(f"clang-tidy: no commit {options.base} here, all sources are checked")
    if options.seconds is None:
        others = []
    elif options.changed:
        must, others = [], must
    elif options.sample:
        must, others = [], must + others
    stamps = {name: cache.stamp(name) for name in sources}
    fresh = [name for name in must if not stamps[name].exists()]
    more = [name for name in others if not stamps[name].exists()]
    count, failed = check_all(tree, build, stamps, fresh, more, options)
    unread = sum(not stamps[name].exists() for name in sources) - failed
    print(
        f"clang-tidy: {len(sources)} sources; {count} checked now, {max(count - len(fresh), 0)} of them "
        f"drawn by --seed {options.seed}; {unread} left for other runs; {failed} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
