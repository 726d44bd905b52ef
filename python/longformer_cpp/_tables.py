"""Tables as people have them: frames of pandas and polars, tables of pyarrow, `datasets`, lists of dicts, whatever speaks
Arrow. None of these packages is imported unless an object of another one has to be read through Arrow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ._batches import ArrowBatch, Batch, Column, FrameBatch, MappingBatch, Unreadable, about_option, is_of
from ._checks import as_text, columns_of, found, is_missing
from ._native import Error

#: So many rows are named in an error text.
_NAMED_ROWS = 8


class _PolarsBatch(Batch):
    """A frame of polars."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = list(frame.columns)

    @property
    def size(self) -> int:
        return int(self._frame.height)

    def values_at(self, place: int) -> list[Any]:
        return list(self._frame.to_series(place).to_list())

    def with_columns(self, columns: Mapping[str, Column]) -> Any:
        polars = sys.modules["polars"]
        return self._frame.with_columns([one.as_polars(polars, name) for name, one in columns.items()])

    def repeated(self, rows: list[int]) -> Batch:
        return _PolarsBatch(self._frame[rows])


class _DatasetBatch(Batch):
    """A Dataset of `datasets`. Labels are the names that its features give them."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.names = list(dataset.column_names)

    @property
    def size(self) -> int:
        return len(self._dataset)

    def values_at(self, place: int) -> list[Any]:
        name = self.names[place]
        values = list(self._dataset.with_format(None)[name])
        names = _names_of_classes(self._dataset.features[name])
        return values if names is None else [_named(value, names) for value in values]

    def with_columns(self, columns: Mapping[str, Column]) -> Any:
        arrow = importlib.import_module("pyarrow")
        made = self._dataset
        for name, one in columns.items():
            if name in made.column_names:
                made = made.remove_columns(name)
            made = made.add_column(name, one.as_arrow(arrow))
        return made

    def repeated(self, rows: list[int]) -> Batch:
        return _DatasetBatch(self._dataset.select(rows))


def _names_of_classes(feature: Any) -> list[str] | None:
    """The names of the classes of a feature of labels, or of lists of them."""
    while type(feature).__name__ in ("List", "LargeList", "Sequence"):
        feature = feature.feature
    return list(feature.names) if type(feature).__name__ == "ClassLabel" and feature.names else None


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    # −1 is a label that nobody knows.
    return None if value is None or not 0 <= value < len(names) else names[value]


class _RecordsBatch(Batch):
    """A list of dicts; a key that a dict does not have is a missing value."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise TypeError(f"row {number}: expected a dict as the rows before, found {found(row)}")
        self._rows = rows
        self._keys = list(dict.fromkeys(key for row in rows for key in row))
        self.names = [str(key) for key in self._keys]

    @property
    def size(self) -> int:
        return len(self._rows)

    def values(self, column: str, option: str = "column") -> list[Any]:
        # A list of no rows does not say its columns.
        return super().values(column, option) if self._rows else []

    def values_at(self, place: int) -> list[Any]:
        return [row.get(self._keys[place]) for row in self._rows]

    def with_columns(self, columns: Mapping[str, Column]) -> list[dict[str, Any]]:
        keys = dict(zip(self.names, self._keys))
        made = {keys.get(name, name): one.as_list() for name, one in columns.items()}
        return [{**row, **{key: values[number] for key, values in made.items()}} for number, row in enumerate(self._rows)]

    def repeated(self, rows: list[int]) -> Batch:
        return _RecordsBatch([self._rows[row] for row in rows])


def _is_stream(value: Any) -> bool:
    """Whether a value of any package is a table that Arrow can read; a column is none."""
    return hasattr(value, "__arrow_c_stream__") and columns_of(value) is not None


def is_table(value: Any) -> bool:
    """Whether a value is rows with named columns, and not a mapping, which may be texts by their names."""
    is_records = isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], Mapping)
    is_known = is_of(value, "pandas", "DataFrame") or is_of(value, "pyarrow", "Table", "RecordBatch")
    return is_records or is_known or is_of(value, "polars", "DataFrame", "LazyFrame") or is_of(value, "datasets", "Dataset") or _is_stream(value)


def _read_stream(value: Any) -> Batch:
    try:
        return ArrowBatch(importlib.import_module("pyarrow").table(value))
    except ImportError:
        pass
    try:
        return _PolarsBatch(importlib.import_module("polars").DataFrame(value))
    except ImportError:
        kind = f"{type(value).__module__}.{type(value).__name__}"
        raise TypeError(f"a table of {kind} is read by pyarrow or polars: pip install pyarrow") from None


def batch_of(value: Any) -> Batch:
    """The rows of a table, or of a mapping of columns."""
    if isinstance(value, Mapping) and not is_of(value, "datasets", "DatasetDict"):
        return MappingBatch(value)
    if is_of(value, "pandas", "DataFrame"):
        return FrameBatch(value)
    if is_of(value, "pyarrow", "Table", "RecordBatch"):
        return ArrowBatch(value)
    if is_of(value, "polars", "LazyFrame"):
        return _PolarsBatch(value.collect())
    if is_of(value, "polars", "DataFrame"):
        return _PolarsBatch(value)
    if is_of(value, "datasets", "Dataset"):
        return _DatasetBatch(value)
    if is_table(value) or (isinstance(value, (list, tuple)) and not value):
        return _RecordsBatch(value) if isinstance(value, (list, tuple)) else _read_stream(value)
    raise TypeError(
        "batch: expected a mapping of columns, a pandas.DataFrame, a polars.DataFrame, a pyarrow.Table or a pyarrow.RecordBatch, "
        f"a datasets.Dataset or a list of dicts, found {found(value)}"
    )


def rows_named(batch: Batch, rows: Sequence[int]) -> str:
    """Rows as an error text lists them."""
    if len(rows) == 1:
        return batch.row_name(rows[0])
    listed = ", ".join(batch.row_name(row).removeprefix("row ") for row in rows[:_NAMED_ROWS])
    return f"{len(rows):,} rows: {listed}{', …' if len(rows) > _NAMED_ROWS else ''}"


def missing_rows(values: Sequence[Any]) -> list[int]:
    return [row for row, value in enumerate(values) if is_missing(value)]


def table_texts(batch: Batch, column: str, option: str = "text_field") -> list[str]:
    """The texts of a column. Raises an exception that says in which rows there is none."""
    values = batch.values(column, option)
    missing = missing_rows(values)
    if missing:
        where = rows_named(batch, missing)
        error = Error(f"column {column!r}: expected a text in every row, found none in {where}; replace missing values or drop their rows")
        error.document = missing[0]
        raise error
    texts = []
    for row, value in enumerate(values):
        name = f"column {column!r}, {batch.row_name(row)}"
        if isinstance(value, Unreadable):
            raise Error(f"{name}: {value.reason}")
        texts.append(as_text(value, name))
    return texts


def with_results(batch: Batch, columns: Mapping[str, Column]) -> Any:
    """The table as it was given, with columns added. Raises Error where their names are taken."""
    taken = [name for name in columns if name in batch.names]
    if taken:
        raise Error(f"table: expected no column {taken[0]!r}, which is that of the result, found one; rename it")
    return batch.with_columns(columns)


def table_names(batch: Batch, column: str | None) -> list[str]:
    """A name for each row: the values of a column, of "id" where there is one, else the index of a frame, else the
    numbers of the rows. Raises Error for one that is missing or stands twice."""
    if column is None and "id" not in batch.names:
        labels = [batch.label_of(row) for row in range(batch.size)]
        names = [str(row if label is None else label) for row, label in enumerate(labels)]
        where = "index"
    else:
        where = f"column {column or 'id'!r}"
        values = batch.values(column or "id", "id_field")
        missing = missing_rows(values)
        if missing:
            raise about_option("id_field", f"expected a value in every row of the {where}, found none in {rows_named(batch, missing)}")
        names = [str(value) for value in values]
    places: dict[str, int] = {}
    for row, name in enumerate(names):
        if places.setdefault(name, row) != row:
            rows = rows_named(batch, [places[name], row])
            raise about_option("id_field", f"expected other names in each row of the {where}, found {found(name)} in {rows}")
    return names
