"""Arguments that are no arrays: their types and checks."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._native import Error

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np


def found(value: Any) -> str:
    """A value as an error text shows it, on one line."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 60 else text[:60] + '…'} ({type(value).__name__})"


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, NA of pandas."""
    # NaN differs from itself, and NA of pandas is neither equal nor not.
    is_number = isinstance(value, (float, np.floating))
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (is_number and bool(value != value))


def as_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        advice = "; replace missing values or drop their rows" if is_missing(value) else ""
        raise TypeError(f"{name}: expected a text (str), found {found(value)}{advice}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            half = f"U+{ord(value[error.start]):04X} at character {error.start}"
            raise Error(f"{name}: expected a text of whole characters, found half of a surrogate pair, {half}") from None
    return value


def columns_of(value: Any) -> list[str] | None:
    """The names of a table's columns (pandas, polars, pyarrow, datasets); None for what is no table."""
    # `columns` of pyarrow are the values.
    for member in ("column_names", "columns"):
        names = getattr(value, member, None)
        if names is not None and not callable(names):
            return [str(name) for name in names]
    return None


def as_items(value: Any, name: str, what: str) -> list[Any]:
    """The items of a list, tuple, column, 1-D array or another iterable in which they have an order and are not names
    of something else."""

    def refuse(kind: str, advice: str) -> TypeError:
        return TypeError(f"{name}: expected {what}, found {kind}: pass {advice}")

    columns = columns_of(value)
    if columns is not None:
        column = next((one for one in columns if one in ("text", "texts", "sentence")), (columns or ["text"])[0])
        listed = ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")
        raise refuse(f"a table ({type(value).__name__}) with the columns {listed}", f"one of them, table[{column!r}]")
    if isinstance(value, Mapping):
        raise refuse(f"a mapping ({type(value).__name__})", "list(mapping.values()), or one of its values")
    if isinstance(value, (set, frozenset)):
        raise refuse(f"a {type(value).__name__}, which has no order", "sorted(…)")
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise refuse(f"an array {list(value.shape)}", "an array [n]")
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: expected {what}, found {found(value)}")
    # Arrays of pyarrow hold scalars of their own.
    return value.to_pylist() if hasattr(value, "to_pylist") else list(value)


def as_texts(value: Any, name: str) -> list[str]:
    """A list of texts; a single text is none."""
    items = as_items(value, name, "a list of texts")
    return [as_text(text, f"{name}[{i}]") for i, text in enumerate(items)]


def as_one_or_more(value: Any, name: str) -> list[str]:
    """A text, or a list of texts."""
    return [as_text(value, name)] if isinstance(value, str) else as_texts(value, name)


def as_integer(value: Any, name: str) -> int:
    """An integer of Python or numpy, but no bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an integer, found {found(value)}")
    return operator.index(value)


def as_count(value: Any, name: str, least: int) -> int:
    """An integer of at least so much."""
    number = as_integer(value, name)
    if number < least:
        raise Error(f"{name}: expected at least {least}, found {number}")
    return number


def as_path(value: Any, name: str) -> str:
    try:
        path = os.fspath(value)
    except TypeError:
        kind = found(value) if columns_of(value) is None else f"a table ({type(value).__name__}): write it to a file"
        raise TypeError(f"{name}: expected a path, found {kind}") from None
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
