#!/usr/bin/env python3
"""Adds the licenses of the shared libraries that auditwheel has put into a wheel.

Usage: wheel_licenses.py WHEEL FOLDER. Writes the wheel anew into FOLDER, with the copyright file of the Debian package
of each library as licenses/debian/PACKAGE in its dist-info, and the licenses that these files name by their places in
Debian as licenses/debian/common-licenses/NAME. A library without a copyright file is an error.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

DOC = pathlib.Path("/usr/share/doc")
COMMON = pathlib.Path("/usr/share/common-licenses")


def original_name(file):
    """libdnnl.so.2 for libdnnl-1a2b3c4d.so.2.6."""
    return re.sub(r"-[0-9a-f]{8}(\.so)", r"\1", file)


def loaded_path(name):
    """The library of this machine that has the name, or one that begins so."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    stem = name.partition(".so")[0]
    for line in listed.splitlines():
        soname, _, path = line.strip().partition(" => ")
        if soname.split(" ")[0].partition(".so")[0] == stem and pathlib.Path(path).resolve().name == name:
            return pathlib.Path(path)
    sys.exit(f"{name}: expected a library of this machine, found none")


def package_of(path):
    """dpkg knows files by the path that they were installed under, which may be that of /lib."""
    for known in (path, path.resolve(), pathlib.Path(str(path.resolve()).removeprefix("/usr"))):
        done = subprocess.run(["dpkg-query", "--search", known], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.partition(":")[0]
    sys.exit(f"{path}: expected a file of a Debian package, found none")


def common_licenses(texts):
    """Texts of the licenses that files of Debian name by their places, by these names."""
    named = set().union(*(re.findall(rb"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text) for text in texts))
    return {name.decode(): (COMMON / name.decode()).read_bytes() for name in named}


def licenses_of(libraries):
    """Texts by the names of packages."""
    texts = {}
    for library in libraries:
        package = package_of(loaded_path(original_name(library)))
        texts[package] = (DOC / package / "copyright").read_bytes()
        print(f"{library}: {package}")
    return texts


def add_to_metadata(info, names):
    """License-File fields stand before the description."""
    metadata = info / "METADATA"
    head, _, body = metadata.read_text(encoding="utf-8").partition("\n\n")
    fields = "".join(f"\nLicense-File: {name}" for name in names)
    metadata.write_text(f"{head}{fields}\n\n{body}", encoding="utf-8")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wheel, folder = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "wheel"]
        subprocess.run([*command, "unpack", "--dest", temporary, wheel], stdout=subprocess.DEVNULL, check=True)
        (root,) = pathlib.Path(temporary).iterdir()
        (info,) = root.glob("*.dist-info")
        libraries = sorted(file.name for file in root.glob("*.libs/*"))
        if not libraries:
            sys.exit(f"{wheel}: expected libraries that auditwheel put in, found none")
        texts = licenses_of(libraries)
        ours = (info / "licenses" / "packaging" / "copyright").read_bytes()
        texts |= {f"common-licenses/{name}": text for name, text in common_licenses([ours, *texts.values()]).items()}
        place = info / "licenses" / "debian"
        (place / "common-licenses").mkdir(parents=True)
        for package, text in texts.items():
            (place / package).write_bytes(text)
        add_to_metadata(info, [f"debian/{package}" for package in sorted(texts)])
        subprocess.run([*command, "pack", "--dest-dir", folder, root], stdout=subprocess.DEVNULL, check=True)
    print(f"{wheel.name}: {(folder / wheel.name).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
