"""Models of the Hub by their names."""

from __future__ import annotations

import sys
from collections.abc import Callable

from . import _native
from ._checks import as_text


def tell(text: str) -> None:
    print(f"longformer_cpp: {text}", file=sys.stderr, flush=True)


def _size(count: int) -> str:
    unit, name = next((one for one in ((1e9, "GB"), (1e6, "MB")) if count >= one[0]), (1e3, "kB"))
    return f"{count / unit:.1f} {name}"


def tell_plan(
    repository: str, revision: str, commit: str, endpoint: str, cache: str, files: int, missing: int, missing_bytes: int
) -> None:
    """Says before what is fetched, and how much."""
    if missing > 0:
        tell(
            f"fetching {repository} ({revision}, commit {commit[:12]}) from {endpoint}: "
            f"{missing} of {files} files, {_size(missing_bytes)}, into {cache}"
        )


def pull(name: str, progress: Callable[[int, int, int, int], None] | None = None) -> str:
    """Fetches org/name or org/name@revision into the cache of the Hub, as `longformer pull` does, and returns its
    folder. What is there is not fetched again; after a break the next call goes on. progress is called with
    files that are done, all files, bytes that are done, all bytes."""
    return _native.pull(as_text(name, "name"), progress)
