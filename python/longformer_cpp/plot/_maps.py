"""Attention probabilities as a picture needs them: one map per layer and head, or means, in cells."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._arrays import FloatArray, shape_of
from .._checks import as_integer, found
from .._model import ModelOutput
from .._native import Error

#: Numbers, "all", or "mean".
Choice = int | str | Sequence[int]
#: Rows of keys that are gathered into cells at once.
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Layer:
    """The heads of one layer, without padding."""

    #: None for the mean of layers.
    number: int | None
    #: [heads, n, x + 2 * reach + 1], or [heads, n, n] where every token may see every token.
    local: FloatArray
    #: [heads, n, x]: how much global token x attends to token n.
    of_global: FloatArray
    dense: bool


@dataclass(frozen=True)
class AttentionMap:
    """The probabilities of one head, or a mean, in the layout of Layer."""

    layer: str
    head: str
    local: FloatArray
    of_global: FloatArray
    #: Positions of the global tokens, ascending.
    globals: npt.NDArray[np.int64]
    dense: bool

    @property
    def tokens(self) -> int:
        return int(self.local.shape[0])

    @property
    def reach(self) -> int:
        """Tokens to each side of a window."""
        return self.tokens if self.dense else (self.local.shape[1] - len(self.globals) - 1) // 2

    @property
    def by_distance(self) -> bool:
        """Whether the window is narrower than the document, so that distances show more than pairs."""
        return not self.dense and self.tokens > 2 * self.reach


@dataclass(frozen=True)
class Axis:
    """How `count` places fit into some pixels: `block` places share a cell of `pixels` pixels."""

    count: int
    block: int
    pixels: int

    @classmethod
    def within(cls, count: int, room: int, most: int = 32) -> Axis:
        block = max(-(-count // room), 1)
        return cls(count, block, min(max(room // -(-count // block), 1), most))

    @property
    def cells(self) -> int:
        return -(-self.count // self.block)

    @property
    def length(self) -> int:
        return self.cells * self.pixels

    @property
    def shares(self) -> npt.NDArray[np.int64]:
        """Places in each cell: fewer than `block` in the last one."""
        return np.minimum(self.block, self.count - self.block * np.arange(self.cells))


class Cells:
    """Probabilities gathered in cells: the largest of each, or the mean."""

    def __init__(self, rows: Axis, columns: Axis, reduction: str):
        self.rows, self.columns, self._largest = rows, columns, reduction == "max"
        self._values = np.zeros(rows.cells * columns.cells)

    def add(self, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], values: FloatArray) -> None:
        at = rows // self.rows.block * self.columns.cells + columns // self.columns.block
        if self._largest:
            np.maximum.at(self._values, at, values.astype(np.float64))
        else:
            self._values += np.bincount(at, values, len(self._values))

    @property
    def values(self) -> npt.NDArray[np.float64]:
        cells = self._values.reshape(self.rows.cells, self.columns.cells)
        return cells if self._largest else cells / np.outer(self.rows.shares, self.columns.shares)


def cells_of_pairs(shown: AttentionMap, room: int, reduction: str) -> Cells:
    """Every query, a row, with every key, a column."""
    axis = Axis.within(shown.tokens, room)
    cells = Cells(axis, axis, reduction)
    n, x = shown.tokens, len(shown.globals)
    first = np.zeros(n, np.int64) if shown.dense else np.arange(n) - shown.reach
    for begin in range(0, n, _ROWS_AT_ONCE):
        rows, columns = np.nonzero(shown.local[begin : begin + _ROWS_AT_ONCE])
        queries = rows + begin
        keys = first[queries] + columns - x
        if x:
            keys = np.where(columns < x, shown.globals[np.minimum(columns, x - 1)], keys)
        cells.add(queries, keys, shown.local[queries, columns])
    for query, probabilities in zip(shown.globals, shown.of_global.T):
        cells.add(np.full(n, query), np.arange(n), probabilities)
    return cells


def cells_by_distance(shown: AttentionMap, room: tuple[int, int], reduction: str) -> Cells:
    """Every query, a row, with the keys of its window by their distance; room for rows and columns."""
    rows, columns = Axis.within(shown.tokens, room[0]), Axis.within(2 * shown.reach + 1, room[1])
    return _cells_of_columns(shown.local[:, len(shown.globals) :], rows, columns, reduction)


def cells_of_global_keys(shown: AttentionMap, room: tuple[int, int], reduction: str) -> Cells:
    """Every query, a row, with the global tokens as keys."""
    rows, columns = Axis.within(shown.tokens, room[0]), Axis.within(len(shown.globals), room[1], most=6)
    return _cells_of_columns(shown.local[:, : len(shown.globals)], rows, columns, reduction)


def _cells_of_columns(values: FloatArray, rows: Axis, columns: Axis, reduction: str) -> Cells:
    cells = Cells(rows, columns, reduction)
    for begin in range(0, rows.count, _ROWS_AT_ONCE):
        row, column = np.nonzero(values[begin : begin + _ROWS_AT_ONCE])
        cells.add(row + begin, column, values[row + begin, column])
    return cells


def maps_of(attention: Any, document: int, layer: Choice, head: Choice) -> list[list[AttentionMap]]:
    """The chosen maps, a list of heads for each layer."""
    names, arrays, knows_heads = _arrays_of(attention, as_integer(document, "document"))
    layers, positions = _layers_of(names, arrays)
    chosen = _chosen(layer, "layer", [one.number for one in layers])
    rows = [(layers[i].number, layers[i]) for i in chosen] if chosen else [(None, _mean_of_layers(layers, positions))]
    numbers = list(range(layers[0].local.shape[0]))
    heads = _chosen(head, "head", numbers)
    shown = []
    for number, one in rows:
        row = "mean of layers" if number is None else f"layer {number}"
        parts = [(f"head {h}" if knows_heads else "", one.local[h], one.of_global[h]) for h in heads] or [
            ("mean of heads", one.local.mean(0), one.of_global.mean(0))
        ]
        # No token is global if all see everything.
        marked = positions[:0] if one.dense else positions
        shown.append([AttentionMap(row, name, local, of, marked, one.dense) for name, local, of in parts])
    return shown


def _arrays_of(attention: Any, document: int) -> tuple[list[int | None], list[tuple[FloatArray, FloatArray]], bool]:
    """Numbers of the layers, local and global attention of each, and whether heads are known by their numbers."""
    if isinstance(attention, ModelOutput):
        if attention.attentions is None:
            raise Error("attention: expected a result with output_attentions=True, found one without attentions")
        count = len(attention.attentions[0])
        if not 0 <= document < count:
            raise Error(f"document: expected a number from 0 to {count - 1}, found {document}")
        local = [np.asarray(one[document]) for one in attention.attentions]
        of_global = attention.global_attentions
        rest = [one[:, :, :0] for one in local] if of_global is None else [np.asarray(one[document]) for one in of_global]
        return list(range(len(local))), list(zip(local, rest)), True
    if isinstance(attention, (str, os.PathLike)):
        return _arrays_of(_loaded(attention), document)
    if not isinstance(attention, Mapping):
        raise TypeError(
            "attention: expected what a model returns with output_attentions=True, the .npz file of `longformer "
            f"attention` or its arrays, found {found(attention)}"
        )
    named = {key.removeprefix("attentions."): key for key in attention if key.startswith("attentions.")}
    numbers: list[int | None] = [int(name) if name.isdecimal() else None for name in named]
    arrays = []
    for name, key in named.items():
        one = np.asarray(attention[key])
        arrays.append((one, np.asarray(attention.get(f"global_attentions.{name}", one[..., :0]))))
    if not arrays:
        raise Error(f"attention: expected arrays attentions.0 and so on, found {', '.join(attention) or 'none'}")
    # A file of one head does not say which.
    return numbers, arrays, len(arrays[0][0]) > 1


def _loaded(file: str | os.PathLike[str]) -> dict[str, FloatArray]:
    try:
        arrays = np.load(file)
    except (ValueError, EOFError, zipfile.BadZipFile):
        arrays = None
    if not isinstance(arrays, np.lib.npyio.NpzFile):
        raise Error(f"{os.fspath(file)}: expected the .npz file of `longformer attention`, found another file")
    with arrays:
        return dict(arrays)


def _layers_of(
    numbers: list[int | None], arrays: list[tuple[FloatArray, FloatArray]]
) -> tuple[list[Layer], npt.NDArray[np.int64]]:
    """The layers without padding, and the positions of the global tokens: their own rows are zeros, as `transformers`
    has it, and they attend to themselves."""
    for local, of_global in arrays:
        shape, rows = local.shape, arrays[0][0].shape[:2]
        if local.ndim != 3 or shape[:2] != rows or of_global.shape[:2] != rows or of_global.ndim != 3:
            raise Error(f"attention: expected [heads, n, columns] of one document, found {shape_of(local)}")
    dense = [_is_dense(local, of_global.shape[2]) for local, of_global in arrays]
    windows = [pair for pair, is_dense in zip(arrays, dense) if not is_dense] or arrays
    sees = np.logical_or.reduce([local.any((0, 2)) for local, _ in windows])
    is_seen = np.logical_or.reduce([of_global.any((0, 2)) for _, of_global in arrays])
    positions = np.flatnonzero(~sees & is_seen)
    x = max(int(of_global.any((0, 1)).sum()) for _, of_global in arrays)
    if len(positions) != x:
        raise Error(f"attention: expected rows of zeros for {x} global tokens, found {len(positions)} such rows")
    n = int(np.flatnonzero(sees | is_seen)[-1]) + 1 if (sees | is_seen).any() else 0
    if n == 0:
        raise Error("attention: expected probabilities, found zeros alone")
    layers = []
    for number, (local, of_global), is_dense in zip(numbers, arrays, dense):
        most = of_global.shape[2]
        if not is_dense and (local.shape[2] - most) % 2 == 0:
            raise Error(f"attention: expected an odd number of columns of a window, found {local.shape[2] - most}")
        kept = local[:, :n, :n] if is_dense else np.delete(local[:, :n], np.s_[x:most], axis=2)
        layers.append(Layer(number, kept, of_global[:, :n, :x], is_dense))
    return layers, positions


def _is_dense(local: FloatArray, globals: int) -> bool:
    """Whether the columns are keys: a window has no keys before the first token."""
    length = local.shape[1]
    return local.shape[2] == length and globals == 0 and bool(local[:, 0, : length // 2].any() or length == 1)


def _as_dense(one: Layer, positions: npt.NDArray[np.int64]) -> Layer:
    if one.dense:
        return one
    heads, n, columns = one.local.shape
    x = len(positions)
    query, column = np.indices((n, columns - x))
    key = query + column - (columns - x - 1) // 2
    inside = (key >= 0) & (key < n)
    local = np.zeros((heads, n, n), np.float32)
    local[:, query[inside], key[inside]] = one.local[:, :, x:][:, inside]
    local[:, :, positions] += one.local[:, :, :x]
    local[:, positions] = one.of_global.transpose(0, 2, 1)
    return Layer(one.number, local, one.of_global[:, :, :0], True)


def _mean_of_layers(layers: list[Layer], positions: npt.NDArray[np.int64]) -> Layer:
    """A narrow window counts as a wide one with zeros around, and beside a dense layer as all tokens with zeros around."""
    x = len(positions)
    if any(one.dense for one in layers):
        layers, x = [_as_dense(one, positions) for one in layers], 0
    widest = max(one.local.shape[2] for one in layers)
    total = np.zeros((*layers[0].local.shape[:2], widest))
    for one in layers:
        wing = 0 if one.dense else (widest - one.local.shape[2]) // 2
        total[:, :, :x] += one.local[:, :, :x]
        total[:, :, x + wing : widest - wing] += one.local[:, :, x:]
    of_global = np.mean([one.of_global for one in layers], axis=0)
    return Layer(None, (total / len(layers)).astype(np.float32), of_global, layers[0].dense)


def _chosen(choice: Choice, what: str, numbers: Sequence[int | None]) -> list[int]:
    """Places in `numbers`; none for the mean of several."""
    if isinstance(choice, str):
        if choice not in ("all", "mean"):
            raise Error(f"{what}: expected a number, all or mean, found {choice!r}")
        return list(range(len(numbers))) if choice == "all" or len(numbers) == 1 else []
    wanted: list[Any] = list(choice) if isinstance(choice, Sequence) else [choice]
    for number in wanted:
        if as_integer(number, what) not in numbers:
            listed = ", ".join("mean" if one is None else str(one) for one in numbers)
            raise Error(f"{what}: expected one of {listed}, found {number}")
    return [list(numbers).index(number) for number in wanted]
