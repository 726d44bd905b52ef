#!/usr/bin/env python3
"""Removes what `make install` installed: the files of BUILD/install_manifest.txt, and the folders that the
installation made, if nothing else is in them. DESTDIR is honoured as by the installation.

Usage: uninstall.py BUILD [PREFIX]. A PREFIX below which the manifest has no file is an error. Nothing is removed
unless everything can be.
"""

import os
import pathlib
import sys


class Failure(Exception):
    """Reason why nothing was removed."""


def installed_files(build, prefix, destination):
    """The files of the manifest that are there."""
    manifest = build / "install_manifest.txt"
    if not manifest.is_file():
        raise Failure(f"expected {manifest}, which `make install` writes, found none: nothing is known to be installed")
    names = [line for line in manifest.read_text(encoding="utf-8").splitlines() if line.startswith("/")]
    if prefix:
        below = os.path.join(os.path.abspath(os.path.expanduser(prefix)), "")
        if not any(name.startswith(below) for name in names):
            raise Failure(f"PREFIX: expected one with files of {manifest}, found {prefix}; its first file is {(names or ['none'])[0]}")
    files = [pathlib.Path(destination + name) for name in names if os.path.lexists(destination + name)]
    if not files:
        where = f"below DESTDIR {destination}" if destination else "; after an installation with DESTDIR it is needed here too"
        raise Failure(f"expected files of {manifest}, found none{' ' if destination else ''}{where}")
    return files


def remove(build, prefix, destination):
    files = installed_files(build, prefix, destination)
    for file in files:
        if file.is_dir() and not file.is_symlink():
            raise Failure(f"expected a file, found the folder {file}")
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise Failure(f"cannot remove {file}: its folder is not writable for this user")
    for file in files:
        file.unlink()
    made = build / "install_folders.txt"
    folders = set(made.read_text(encoding="utf-8").splitlines()) if made.is_file() else set()
    # Only folders above removed files: the list may know other installations as well.
    above = {str(folder) for file in files for folder in file.parents}
    removed = 0
    for folder in sorted(folders & above, key=len, reverse=True):
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
            removed += 1
    (build / "install_manifest.txt").unlink()
    print(f"removed {len(files)} files and {removed} folders")


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: uninstall.py BUILD [PREFIX]")
    try:
        remove(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else "", os.environ.get("DESTDIR", "").rstrip("/"))
    except (Failure, OSError) as error:
        sys.exit(f"uninstall: {error}")


if __name__ == "__main__":
    main()
