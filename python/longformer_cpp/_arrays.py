"""Arrays and lists of numbers as they come in: their types, forms and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from ._native import Error

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32]
    IntegerArray = npt.NDArray[np.int32]
else:
    from ._numpy import np

    FloatArray = IntegerArray = Any

# [batch, n] arrays are padded; lists of 1-D arrays are ragged.
Batched = Union[FloatArray, list[FloatArray]]
Document = tuple[
    IntegerArray,
    Optional[IntegerArray],
    Optional[IntegerArray],
    Optional[IntegerArray],
    Optional[IntegerArray],
]


def as_array(value: Any, name: str) -> npt.NDArray[Any]:
    """A numpy array over the values, without a copy where there is a buffer to share."""
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        return np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise Error(f"{name}: expected an array of numbers in main memory: {error}") from error


def as_integers(value: Any, name: str) -> IntegerArray:
    array = as_array(value, name)
    if array.size and array.dtype.kind not in "iub":
        raise Error(f"{name}: expected integers, found {array.dtype}")
    limits = np.iinfo(np.int32)
    if array.size and array.dtype.itemsize >= 4 and array.dtype != np.int32:
        low, high = array.min(), array.max()
        if low < limits.min or high > limits.max:
            raise Error(f"{name}: expected numbers of 32 bits, found {low if low < limits.min else high}")
    return np.asarray(array, dtype=np.int32, order="C")


def as_floats(value: Any, name: str) -> FloatArray:
    array = as_array(value, name)
    if array.ndim != 3:
        raise Error(f"{name}: expected [heads, n, head_size], found {shape_of(array)}")
    if array.dtype.kind != "f":
        raise Error(f"{name}: expected float32, found {array.dtype}")
    return np.asarray(array, dtype=np.float32, order="C")


def empty_like(value: FloatArray) -> FloatArray:
    return np.empty_like(value)


def as_result(value: Any, inputs: Sequence[FloatArray], name: str) -> FloatArray:
    """Memory of the caller for a result of the shape of the first input."""
    shape = inputs[0].shape
    is_one = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.shape == shape
    if not is_one or not (value.flags.c_contiguous and value.flags.writeable and value.flags.aligned):
        found = f"{value.dtype} {shape_of(value)}" if isinstance(value, np.ndarray) else type(value).__name__
        raise Error(f"{name}: expected a contiguous array of float32 {list(shape)} that may be written, found {found}")
    if any(np.may_share_memory(value, one) for one in inputs):
        raise Error(f"{name}: expected memory of its own, found that of q, k or v")
    return cast(FloatArray, value)


def shape_of(array: npt.NDArray[Any]) -> str:
    return str(list(array.shape))


def rows_like(value: Any, name: str, ids: list[IntegerArray], ragged: bool) -> list[IntegerArray | None]:
    """One mask per document, in the form that the ids have."""
    if value is None:
        return [None] * len(ids)
    if not ragged:
        array = as_integers(value, name)
        expected = (len(ids), len(ids[0]))
        if array.shape != expected:
            raise Error(f"{name}: expected {list(expected)} as input_ids, found {shape_of(array)}")
        return list(array)
    if len(value) != len(ids):
        raise Error(f"{name}: expected {len(ids)} arrays as input_ids, found {len(value)}")
    rows: list[IntegerArray | None] = []
    for i, (row, row_ids) in enumerate(zip(value, ids)):
        if row is None:
            rows.append(None)
            continue
        array = as_integers(row, f"{name}[{i}]")
        if array.shape != row_ids.shape:
            raise Error(f"{name}[{i}]: expected {shape_of(row_ids)} as input_ids, found {shape_of(array)}")
        rows.append(array)
    return rows


def documents_of(input_ids: Any) -> tuple[list[IntegerArray], bool]:
    """The documents, and whether they came as a list."""
    if isinstance(input_ids, (list, tuple)):
        documents = [as_integers(row, f"input_ids[{i}]") for i, row in enumerate(input_ids)]
        for i, document in enumerate(documents):
            if document.ndim != 1:
                raise Error(f"input_ids[{i}]: expected one document [n], found {shape_of(document)}")
        ragged = True
    else:
        array = as_integers(input_ids, "input_ids")
        if array.ndim == 3:
            raise Error("input_ids: [batch, choices, n] needs a multiple-choice head, this model has none")
        if array.ndim != 2:
            raise Error(f"input_ids: expected [batch, n] or a list of documents, found {shape_of(array)}")
        documents = list(array)
        ragged = False
    if not documents:
        raise Error("input_ids: expected at least one document, found none")
    return documents, ragged


def without_padding(document: Document) -> Document:
    """The document up to its last visible token; what follows is unspecified and costs nothing."""
    mask = document[1]
    if mask is None or mask.size == 0 or mask[-1] != 0:
        return document
    visible = np.flatnonzero(mask)
    end = int(visible[-1]) + 1 if visible.size else 1
    ids, attention, types, positions, global_attention = document
    return (
        ids[:end],
        mask[:end],
        None if types is None else types[:end],
        None if positions is None else positions[:end],
        None if global_attention is None else global_attention[:end],
    )
