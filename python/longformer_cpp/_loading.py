"""Loads the native module, and the OpenMP runtime with it: short waits between the loops of a text.

libgomp lets a thread that waits for work keep its core for tens of milliseconds, and processes on
the same cores stop each other. The runtime reads the variable once, when it is loaded; other
modules and child processes do not see it.
"""

import os

_SPINS = "GOMP_SPINCOUNT"


def _load() -> None:
    if _SPINS in os.environ or "OMP_WAIT_POLICY" in os.environ:
        from . import _native  # noqa: F401

        return
    os.environ[_SPINS] = "3000"
    try:
        from . import _native  # noqa: F401
    finally:
        del os.environ[_SPINS]


_load()
