"""Records of files that the program writes."""

from __future__ import annotations

import csv
import json
import os
import pathlib
from typing import Any

from .._checks import as_path
from .._native import Error


def records_of(file: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The objects of a .json or .jsonl file, or the rows of a .csv file."""
    path = pathlib.Path(as_path(file, "file"))
    text = path.read_text(encoding="utf-8")
    try:
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        elif text.lstrip().startswith("{"):
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            rows = list(csv.DictReader(text.splitlines()))
    except json.JSONDecodeError as error:
        raise Error(f"{path}: expected JSON, found another text: {error}") from None
    return [row for row in rows if isinstance(row, dict)]
