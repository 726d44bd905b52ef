"""Batches of a corpus in the forms that frameworks pass: a mapping of columns (Ray, datasets), a frame of pandas, a
table or record batch of pyarrow. A batch comes back in the form that it had. pandas and pyarrow are never imported
here: who passes their objects has loaded them."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
        is_numbers = self.types == "int64" and None not in self.rows
        return np.array(self.rows, np.int64) if is_numbers else _objects(self.rows)

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

    def values(self, column: str) -> list[Any]:
        """The values of a column as Python has them."""
        if column not in self.names:
            raise Error(f"column: expected one of {', '.join(self.names)}, found {found(column)}")
        return self._values(column)

    @abstractmethod
    def _values(self, column: str) -> list[Any]: ...

    @abstractmethod
    def with_columns(self, columns: Mapping[str, Column]) -> Any:
        """The batch as it was given, with columns added, or replaced where their names are taken."""

    @abstractmethod
    def repeated(self, rows: list[int]) -> Batch:
        """A batch of these rows."""


class _MappingBatch(Batch):
    """A mapping from names to arrays or lists."""

    def __init__(self, batch: Mapping[str, Any]) -> None:
        self._columns = {name: one if isinstance(one, (np.ndarray, list)) else list(one) for name, one in batch.items()}
        self.names = list(self._columns)
        sizes = {len(one) for one in self._columns.values()}
        if len(sizes) > 1:
            raise Error(f"batch: expected columns of one length, found {' and '.join(map(str, sorted(sizes)))}")
        # New columns are lists if any column is one.
        self._is_numpy = all(isinstance(one, np.ndarray) for one in self._columns.values())

    def _values(self, column: str) -> list[Any]:
        values = self._columns[column]
        if isinstance(values, np.ndarray) and values.ndim == 1:
            return list(values.tolist())
        return as_items(values, f"batch[{column!r}]", "a column of texts")

    def with_columns(self, columns: Mapping[str, Column]) -> dict[str, Any]:
        made = {name: one.as_numpy() if self._is_numpy else one.as_list() for name, one in columns.items()}
        return {**self._columns, **made}

    def repeated(self, rows: list[int]) -> Batch:
        at = np.array(rows, np.intp)
        return _MappingBatch(
            {name: one[at] if isinstance(one, np.ndarray) else [one[row] for row in rows] for name, one in self._columns.items()}
        )


class _FrameBatch(Batch):
    """A frame of pandas."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = [str(name) for name in frame.columns]

    def _values(self, column: str) -> list[Any]:
        values = self._frame[column]
        if values.ndim != 1:
            raise Error(f"column: expected one column {found(column)}, found {values.shape[1]} of this name")
        return list(values.tolist())

    def with_columns(self, columns: Mapping[str, Column]) -> Any:
        pandas, index = sys.modules["pandas"], self._frame.index
        made = {}
        for name, one in columns.items():
            is_text = isinstance(one, Values) and one.types == "string"
            array = _objects(one.as_list()) if is_text or isinstance(one, Vectors) else one.as_numpy()
            made[name] = pandas.Series(array, index=index, dtype=array.dtype)
        return self._frame.assign(**made)

    def repeated(self, rows: list[int]) -> Batch:
        return _FrameBatch(self._frame.iloc[rows])


class _ArrowBatch(Batch):
    """A table or a record batch of pyarrow."""

    def __init__(self, batch: Any) -> None:
        self._arrow = sys.modules["pyarrow"]
        self._is_record_batch = isinstance(batch, self._arrow.RecordBatch)
        self._table = self._arrow.Table.from_batches([batch]) if self._is_record_batch else batch
        self.names = list(self._table.column_names)

    def _values(self, column: str) -> list[Any]:
        values = self._table.column(column)
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
        taken = _ArrowBatch(table.take(self._arrow.array(rows, self._arrow.int64())))
        taken._is_record_batch = self._is_record_batch
        return taken


def _value_of(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return Unreadable(f"expected UTF-8, found the byte 0x{error.object[error.start]:02x} at byte {error.start}")


def _is_of(value: Any, module: str, *names: str) -> bool:
    """Whether a value is of a class of a module that may not be loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and any(isinstance(value, getattr(loaded, name, ())) for name in names)


def batch_of(value: Any) -> Batch:
    """The batch as the classes of this module read it."""
    if isinstance(value, Mapping):
        return _MappingBatch(value)
    if _is_of(value, "pandas", "DataFrame"):
        return _FrameBatch(value)
    if _is_of(value, "pyarrow", "Table", "RecordBatch"):
        return _ArrowBatch(value)
    raise TypeError(
        f"batch: expected a mapping of columns, a pandas.DataFrame, a pyarrow.Table or a pyarrow.RecordBatch, found {found(value)}"
    )
