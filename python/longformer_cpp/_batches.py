"""Rows with named columns in the forms that packages pass: a mapping of columns (Ray, datasets), a frame of pandas, a
table or record batch of pyarrow; `_tables` has the others. Rows come back in the form that they had. pandas and pyarrow
are never imported here: who passes their objects has loaded them."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from ._arrays import FloatArray
from ._checks import as_items, found
from ._native import Error

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    from ._numpy import np

#: Names of Arrow types by Python type, and those of the fields of records.
FieldTypes = Mapping[str, str]


@dataclass(frozen=True)
class Unreadable:
    """A value of a column that is no text, with the reason."""

    reason: str


@dataclass(frozen=True)
class Vectors:
    """A column of vectors of one size; None where a row has none."""

    rows: list[FloatArray | None]
    size: int
    #: Whether Arrow has a type of its own for them.
    is_fixed: bool = True

    def as_matrix(self, missing: float) -> FloatArray:
        """float32 [rows, size]; a row without a vector is filled."""
        matrix = np.full((len(self.rows), self.size), missing, np.float32)
        for target, row in zip(matrix, self.rows):
            if row is not None:
                target[:] = row
        return matrix

    def as_list(self) -> list[Any]:
        return list(self.rows)

    def as_numpy(self) -> npt.NDArray[Any]:
        """A matrix, or objects where a row has none."""
        return _objects(self.rows) if any(row is None for row in self.rows) else self.as_matrix(0)

    def as_polars(self, polars: Any, name: str) -> Any:
        """Array(Float32, size), or List(Float32)."""
        kind = polars.Array(polars.Float32, self.size) if self.is_fixed else polars.List(polars.Float32)
        return polars.Series(name, [None if row is None else row.tolist() for row in self.rows], dtype=kind)

    def as_arrow(self, arrow: Any) -> Any:
        """FixedSizeList<float32>[size], or List<float32>: always in a task of Spark, which does not read the other."""
        if not self.is_fixed or spark_task() is not None:
            return arrow.array(self.rows, arrow.list_(arrow.float32()))
        values = arrow.array(self.as_matrix(0).reshape(-1))
        missing = arrow.array([row is None for row in self.rows], arrow.bool_())
        return arrow.FixedSizeListArray.from_arrays(values, self.size, mask=missing)


@dataclass(frozen=True)
class Values:
    """A column of texts or numbers, or of lists of records; None where a row has none."""

    rows: list[Any]
    #: Arrow type of a value (string, int64, …), or those of the fields of each record.
    types: str | FieldTypes

    def as_list(self) -> list[Any]:
        return self.rows

    def as_numpy(self) -> npt.NDArray[Any]:
        kind = self.types if isinstance(self.types, str) else ""
        is_numbers = kind in ("int64", "float32") and None not in self.rows
        return np.array(self.rows, kind) if is_numbers else _objects(self.rows)

    def as_polars(self, polars: Any, name: str) -> Any:
        kinds = {"string": polars.String, "int64": polars.Int64, "float32": polars.Float32}
        if isinstance(self.types, str):
            return polars.Series(name, self.rows, dtype=kinds[self.types])
        record = polars.Struct({field: kinds[kind] for field, kind in self.types.items()})
        return polars.Series(name, self.rows, dtype=polars.List(record))

    def as_arrow(self, arrow: Any) -> Any:
        if isinstance(self.types, str):
            return arrow.array(self.rows, getattr(arrow, self.types)())
        fields = [(name, getattr(arrow, kind)()) for name, kind in self.types.items()]
        return arrow.array(self.rows, arrow.list_(arrow.struct(fields)))


Column = Union[Vectors, Values]


def _objects(rows: Sequence[Any]) -> npt.NDArray[Any]:
    """[rows] of objects, also where these are arrays of one length."""
    array = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


def spark_task() -> Any:
    """The task of Spark that this process computes, or None."""
    pyspark = sys.modules.get("pyspark")
    return None if pyspark is None else pyspark.TaskContext.get()


class Batch(ABC):
    """Rows with named columns."""

    #: Names of the columns, in their order.
    names: list[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """How many rows there are."""

    def values(self, column: str, option: str = "column") -> list[Any]:
        """The values of a column as Python has them. `option` is where the caller got the name from."""
        places = [place for place, name in enumerate(self.names) if name == column]
        if len(places) == 1:
            return self.values_at(places[0])
        if places:
            reason = f"expected one column {found(column)}, found {len(places)} of this name"
        else:
            reason = f"expected one of {', '.join(self.names) or 'some columns'}, found {found(column)}"
        raise about_option(option, reason)

    @abstractmethod
    def values_at(self, place: int) -> list[Any]:
        """The values of the column at this place of `names`."""

    def label_of(self, row: int) -> Any:
        """The name of a row in an index of labels; None where rows have their numbers alone."""
        return None

    def row_name(self, row: int) -> str:
        """A row as an error text calls it."""
        label = self.label_of(row)
        return f"row {row}" if label is None else f"row {row} (index {label!r})"

    @abstractmethod
    def with_columns(self, columns: Mapping[str, Column]) -> Any:
        """The batch as it was given, with columns added, or replaced where their names are taken."""

    @abstractmethod
    def repeated(self, rows: list[int]) -> Batch:
        """A batch of these rows."""


def about_option(option: str, reason: str) -> Error:
    """An error about an option."""
    error = Error(f"{option}: {reason}")
    error.option = option
    return error


def _column_of(value: Any, name: str) -> Any:
    """An array with rows or a list. A text is no column of its characters."""
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0):
        return value
    if isinstance(value, (str, bytes, np.ndarray)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: expected a column with a value for each row, found {found(value)}")
    return list(value)


class MappingBatch(Batch):
    """A mapping from names to arrays or lists."""

    def __init__(self, batch: Mapping[str, Any]) -> None:
        self._columns = {name: _column_of(one, f"batch[{name!r}]") for name, one in batch.items()}
        self.names = [str(name) for name in self._columns]
        sizes = {len(one) for one in self._columns.values()}
        if len(sizes) > 1:
            raise Error(f"batch: expected columns of one length, found {' and '.join(map(str, sorted(sizes)))}")
        # New columns are lists if any column is one.
        self._is_numpy = all(isinstance(one, np.ndarray) for one in self._columns.values())

    @property
    def size(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def values_at(self, place: int) -> list[Any]:
        label = list(self._columns)[place]
        values = self._columns[label]
        if isinstance(values, np.ndarray) and values.ndim == 1:
            return list(values.tolist())
        return as_items(values, f"batch[{label!r}]", "a column of texts")

    def with_columns(self, columns: Mapping[str, Column]) -> dict[str, Any]:
        # Keys may be other than texts.
        keys = dict(zip(self.names, self._columns))
        made = {keys.get(name, name): one.as_numpy() if self._is_numpy else one.as_list() for name, one in columns.items()}
        return {**self._columns, **made}

    def repeated(self, rows: list[int]) -> Batch:
        at = np.array(rows, np.intp)
        return MappingBatch(
            {name: one[at] if isinstance(one, np.ndarray) else [one[row] for row in rows] for name, one in self._columns.items()}
        )


class FrameBatch(Batch):
    """A frame of pandas."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = [str(name) for name in frame.columns]

    @property
    def size(self) -> int:
        return len(self._frame)

    def values_at(self, place: int) -> list[Any]:
        return list(self._frame.iloc[:, place].tolist())

    def label_of(self, row: int) -> Any:
        index = self._frame.index
        is_usual = isinstance(index, sys.modules["pandas"].RangeIndex) and index.start == 0 and index.step == 1
        return None if is_usual else index[row]

    def with_columns(self, columns: Mapping[str, Column]) -> Any:
        pandas, index = sys.modules["pandas"], self._frame.index
        frame = self._frame.copy(deep=False)
        for name, one in columns.items():
            is_text = isinstance(one, Values) and one.types == "string"
            array = _objects(one.as_list()) if is_text or isinstance(one, Vectors) else one.as_numpy()
            # Names of columns may be other than texts.
            levels = frame.columns.nlevels
            new = name if levels == 1 else (name, *[""] * (levels - 1))
            label = frame.columns[self.names.index(name)] if name in self.names else new
            frame[label] = pandas.Series(array, index=index, dtype=array.dtype)
        return frame

    def repeated(self, rows: list[int]) -> Batch:
        return FrameBatch(self._frame.iloc[rows])


class ArrowBatch(Batch):
    """A table or a record batch of pyarrow."""

    def __init__(self, batch: Any) -> None:
        self._arrow = sys.modules["pyarrow"]
        self._is_record_batch = isinstance(batch, self._arrow.RecordBatch)
        self._table = self._arrow.Table.from_batches([batch]) if self._is_record_batch else batch
        self.names = list(self._table.column_names)

    @property
    def size(self) -> int:
        return int(self._table.num_rows)

    def values_at(self, place: int) -> list[Any]:
        values = self._table.column(place)
        try:
            return list(values.to_pylist())
        except UnicodeDecodeError:
            return [_value_of(scalar) for scalar in values]

    def with_columns(self, columns: Mapping[str, Column]) -> Any:
        table = self._table
        for name, one in columns.items():
            if name not in table.column_names:
                table = table.append_column(name, one.as_arrow(self._arrow))
                continue
            place, array = table.column_names.index(name), one.as_arrow(self._arrow)
            kind = table.schema.field(place).type
            # A column of texts keeps its kind; one with a dictionary or of other values becomes plain.
            is_large = self._arrow.types.is_large_string(kind)
            table = table.set_column(place, name, array.cast(kind) if is_large else array)
        if not self._is_record_batch:
            return table
        arrays = [column.combine_chunks() for column in table.columns]
        return self._arrow.RecordBatch.from_arrays(arrays, schema=table.schema)

    def repeated(self, rows: list[int]) -> Batch:
        # Arrow cannot take rows of views.
        plain = {self._arrow.string_view(): self._arrow.large_string(), self._arrow.binary_view(): self._arrow.large_binary()}
        fields = [field.with_type(plain.get(field.type, field.type)) for field in self._table.schema]
        table = self._table.cast(self._arrow.schema(fields, self._table.schema.metadata))
        taken = ArrowBatch(table.take(self._arrow.array(rows, self._arrow.int64())))
        taken._is_record_batch = self._is_record_batch
        return taken


def _value_of(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return Unreadable(f"expected UTF-8, found the byte 0x{error.object[error.start]:02x} at byte {error.start}")


def is_of(value: Any, module: str, *names: str) -> bool:
    """Whether a value is of a class of a module that may not be loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and any(isinstance(value, getattr(loaded, name, ())) for name in names)
