"""Arguments that are no arrays: their types and checks."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any


def found(value: Any) -> str:
    """A value as an error text shows it, on one line."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 60 else text[:60] + '…'} ({type(value).__name__})"


def as_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text (str), found {found(value)}")
    return value


def as_texts(value: Any, name: str) -> list[str]:
    """A list of texts; a single text is none."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: expected a list of texts, found {found(value)}")
    return [as_text(text, f"{name}[{i}]") for i, text in enumerate(value)]


def as_one_or_more(value: Any, name: str) -> list[str]:
    """A text, or a list of texts."""
    return [value] if isinstance(value, str) else as_texts(value, name)


def as_integer(value: Any, name: str) -> int:
    """An integer of Python or numpy, but no bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an integer, found {found(value)}")
    return operator.index(value)


def as_path(value: Any, name: str) -> str:
    try:
        path = os.fspath(value)
    except TypeError:
        raise TypeError(f"{name}: expected a path, found {found(value)}") from None
    return os.fsdecode(path)


def counted(number: int, what: str) -> str:
    """1 document, 2 documents."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def lasting_name(folder: str) -> str:
    """The name of a model that means the same in another process: a folder by its whole path."""
    return os.path.abspath(folder) if os.path.isdir(folder) else folder


def given(arguments: dict[str, Any], *but: str) -> dict[str, Any]:
    """The arguments of a call that are options: all but `self` and those named."""
    return {name: value for name, value in arguments.items() if name != "self" and name not in but}
