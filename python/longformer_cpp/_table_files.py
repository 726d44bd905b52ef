"""Tables in place of files: what reads data sets gets them as JSON lines, and its messages name rows and columns."""

from __future__ import annotations

import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ._batches import Batch, Unreadable, about_option
from ._checks import as_path, as_text, found, is_missing
from ._native import Error
from ._tables import batch_of, is_table, missing_rows, rows_named

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np

#: Options that name columns.
_FIELDS = ("text_field", "pair_field", "label_field", "id_field")
#: Options that say how a file is read; a table says it itself.
_OF_FILES = ("format", "columns", "delimiter", "no_quotes", "encoding")


class Unwritable(Exception):
    """A value that JSON does not have."""


def plain(value: Any) -> Any:
    """A value as JSON has it, without missing ones."""
    if isinstance(value, (str, bool, int)) and not isinstance(value, np.generic):
        return value
    if is_missing(value):
        return None
    if isinstance(value, float):
        return float(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(one) for one in value]
    raise Unwritable


def _whole(values: list[Any]) -> list[Any]:
    """Whole numbers that are floats because some are missing, as pandas has them."""
    numbers = [value for value in values if not is_missing(value)]
    is_whole = len(numbers) < len(values) and all(isinstance(one, float) and one.is_integer() for one in numbers)
    return [None if is_missing(value) else int(value) for value in values] if is_whole else values


class _TableFile:
    """A table that is written for a call."""

    def __init__(self, argument: str, table: Any, options: Mapping[str, Any]) -> None:
        self.argument = argument
        try:
            self.batch: Batch = batch_of(table)
        except TypeError as error:
            raise TypeError(f"{argument}: {str(error).removeprefix('batch: ')}") from None
        self._fields = {field: as_text(options[field], field) for field in _FIELDS if options.get(field) is not None}
        self.path = ""

    def _columns(self) -> dict[str, list[Any]]:
        """The columns that JSON can hold."""
        for field, name in self._fields.items():
            self.batch.values(name, field)
        named = {name: field for field, name in self._fields.items()}
        labels = (self._fields.get("label_field"), "label", "labels")
        columns: dict[str, list[Any]] = {}
        for place, name in enumerate(self.batch.names):
            values = self.batch.values_at(place)
            if name in labels:
                values = _whole(values)
            made: list[Any] = []
            for row, value in enumerate(values):
                where = f"{self.argument}: column {name!r}, {self.batch.row_name(row)}"
                if isinstance(value, Unreadable):
                    raise Error(f"{where}: {value.reason}")
                try:
                    made.append(plain(as_text(value, where) if isinstance(value, str) else value))
                except Unwritable:
                    if name in named:
                        raise about_option(named[name], f"expected texts, numbers or lists in the column {name!r}, found {found(value)}") from None
                    break
            else:
                columns[name] = made
        return columns

    def write(self, folder: str) -> None:
        columns = self._columns()
        self.path = str(pathlib.Path(folder) / f"{self.argument}.jsonl")
        try:
            with open(self.path, "w", encoding="utf-8", newline="\n") as file:
                for row in range(self.batch.size):
                    record = {name: values[row] for name, values in columns.items()}
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            advice = "TMPDIR names another folder"
            raise Error(f"{self.argument}: cannot write the table into {folder}: {error.strerror}; {advice}") from error

    def told(self, text: str) -> tuple[str, int | None]:
        """A message with the row in place of the line of the file, and this row."""
        place = re.search(re.escape(self.path) + r":(\d+)(?!\d)", text)
        row = int(place[1]) - 1 if place and 0 < int(place[1]) <= self.batch.size else None
        if place and row is not None:
            text = text.replace(place[0], f"{self.argument}: {self.batch.row_name(row)}")
        return text.replace(self.path, self.argument), row

    def explain(self, error: Error) -> None:
        """Lets an error about the file speak of the table."""
        text, row = self.told(str(error))
        if text == str(error):
            return
        if row is not None:
            text += self._columns_that_are_there() or self._missing_values()
            error.document = row
        error.args = (text,)

    def _columns_that_are_there(self) -> str:
        """Advice where the usual columns are not there."""
        names = self.batch.names
        has_text = "text_field" in self._fields or "text" in names
        has_label = "label_field" in self._fields or "label" in names or "labels" in names
        if has_text and has_label:
            return ""
        fields = [field for field, is_there in (("text_field", has_text), ("label_field", has_label)) if not is_there]
        return f"; the columns are {', '.join(names)}: {' and '.join(fields)} may name {'one' if len(fields) == 1 else 'two'} of them"

    def _missing_values(self) -> str:
        """Rows of the columns that have no value."""
        wanted = {"text", "label", "labels", *self._fields.values()}
        parts = []
        for place, name in enumerate(self.batch.names):
            rows = missing_rows(self.batch.values_at(place)) if name in wanted else []
            if rows:
                parts.append(f"the column {name!r} has no value in {rows_named(self.batch, rows)}")
        return f"; {', '.join(parts)}" if parts else ""


class DataFiles:
    """The files of a call, of which some stand for tables."""

    def __init__(self, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._tables = [_TableFile(name, value, options) for name, value in given.items() if _is_data(value)]
        of_tables = {table.argument for table in self._tables}
        for option in _OF_FILES:
            if self._tables and options.get(option) not in (None, False):
                raise about_option(option, f"expected none beside a table ({', '.join(sorted(of_tables))}), found {found(options[option])}")
        self.paths = {name: as_path(value, name) for name, value in given.items() if name not in of_tables}

    @property
    def has_tables(self) -> bool:
        return bool(self._tables)

    def write(self, folder: str) -> None:
        for table in self._tables:
            table.write(folder)
            self.paths[table.argument] = table.path

    def told(self, text: str) -> str:
        for table in self._tables:
            text = table.told(text)[0]
        return text

    def explain(self, error: Error) -> None:
        for table in self._tables:
            table.explain(error)


def _is_data(value: Any) -> bool:
    return is_table(value) or isinstance(value, Mapping) or (isinstance(value, list) and not value)


@contextmanager
def data_files(given: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[DataFiles]:
    """Paths for arguments that are paths or tables. What is raised inside speaks of rows and columns."""
    files = DataFiles(given, options)
    if not files.has_tables:
        yield files
        return
    with tempfile.TemporaryDirectory(prefix="longformer-") as folder:
        files.write(os.fspath(folder))
        try:
            yield files
        except Error as error:
            files.explain(error)
            raise
