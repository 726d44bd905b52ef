"""numpy, imported when it is first used: importing this package then takes half of the time."""

from __future__ import annotations

from typing import Any


class _Numpy:
    """Stands for the module; a name that was asked for is kept."""

    def __getattr__(self, name: str) -> Any:
        import numpy

        value = getattr(numpy, name)
        setattr(self, name, value)
        return value


np = _Numpy()
