"""Files of the data sets, below the folder that LONGFORMER_DATA names (docs/data.md)."""

import os
import pathlib
import sys


def folder(*names, given=None):
    """The folder, which must have these files (`*` allowed); without one of them the script ends with exit code 1."""
    root = given or os.environ.get("LONGFORMER_DATA")
    if not root:
        sys.exit(f"error: LONGFORMER_DATA: expected a folder with {names[0]}, found no folder (docs/data.md says how to make it)")
    for name in names:
        if not any(pathlib.Path(root).glob(name)):
            sys.exit(f"error: {root}: expected {name}, found nothing (docs/data.md says where it comes from)")
    return pathlib.Path(root)


def file(name):
    """The file of this name."""
    return folder(name) / name
