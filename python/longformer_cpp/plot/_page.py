"""A figure whose panels lie on whole pixels, its texts in any script, and its file."""

from __future__ import annotations

import math
import os
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib import font_manager, ft2font
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from .._checks import as_path
from .._native import Error

INK = "#282830"
_ENDINGS = (".png", ".svg", ".pdf")
#: A figure of 72 dots per inch has a pixel for each point, the unit of letters.
_DPI = 72
_CANVAS = 1000
_MARGIN = 20
_TITLE_SIZE = 17


def checked_file(file: str | os.PathLike[str] | None) -> pathlib.Path | None:
    """The file to write. Raises Error for a name that ends otherwise than pictures do."""
    if file is None:
        return None
    path = pathlib.Path(as_path(file, "file"))
    if path.suffix.lower() not in _ENDINGS:
        raise Error(f"file: expected a name that ends in {', '.join(_ENDINGS)}, found {str(path)!r}")
    return path


def save(figure: Figure, path: pathlib.Path | None) -> None:
    """The same figure gives the same bytes."""
    if path is None:
        return
    dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    figure.savefig(path, metadata=dated)


def _covered(entry: font_manager.FontEntry, characters: set[int]) -> set[int]:
    try:
        return characters & ft2font.FT2Font(entry.fname).get_charmap().keys()
    except (OSError, RuntimeError):
        return set()


def families(texts: Iterable[str]) -> list[str]:
    """Font families that have the characters of the texts: the default, then as few others as will do."""
    default = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    missing = {ord(c) for text in texts for c in text if c.isprintable()} - default.get_charmap().keys()
    chosen = list(matplotlib.rcParams["font.family"])
    if not missing:
        return chosen
    entries = sorted(
        font_manager.fontManager.ttflist,
        key=lambda entry: (entry.style != "normal", str(entry.weight) not in ("400", "normal"), "Sans" not in entry.name),
    )
    # Last Resort has a box for every character.
    covers = [(one.name, _covered(one, missing)) for one in entries if not one.name.startswith("Last Resort")]
    while missing:
        name, has = max(covers, key=lambda cover: len(cover[1] & missing), default=("", set()))
        if not has & missing:
            break
        chosen.append(name)
        missing -= has
    if missing:
        without = "".join(map(chr, sorted(missing)[:20]))
        warnings.warn(f"no installed font has {without}: boxes stand for them", RuntimeWarning, stacklevel=5)
    return chosen


@contextmanager
def drawing(texts: Iterable[str], size: int = 10) -> Iterator[None]:
    """Texts are shown as they are, in fonts that have them."""
    settings: dict[Any, Any] = {
        "font.family": families(texts),
        "font.size": size,
        "text.parse_math": False,
        "text.usetex": False,
        "svg.hashsalt": "longformer",
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Told once by `families`.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


class Page:
    """Panels at pixels of a plane without an end, x to the right, y downwards. `finish` makes the figure as large as
    what was drawn."""

    def __init__(self) -> None:
        self.figure = Figure(figsize=(_CANVAS / _DPI, _CANVAS / _DPI), dpi=_DPI, facecolor="white")
        self._renderer: Any = FigureCanvasAgg(self.figure).get_renderer()  # type: ignore[no-untyped-call]
        self._boxes: dict[Axes, tuple[int, int, int, int]] = {}

    def panel(self, left: int, top: int, width: int, height: int) -> Axes:
        axes = self.figure.add_axes((0, 0, 1, 1))
        self._place(axes, (left, top, width, height), _CANVAS, _CANVAS)
        return axes

    def put_right_of(self, edge: int, gap: int, group: Sequence[Axes]) -> int:
        """Moves panels, with all their texts, to the right of an edge; returns the new edge."""
        shift = edge + gap - min(math.floor(self._box(axes).x0) for axes in group)
        for axes in group:
            left, top, width, height = self._boxes[axes]
            self._place(axes, (left + shift, top, width, height), _CANVAS, _CANVAS)
        return self.right_of(group)

    def right_of(self, group: Sequence[Axes]) -> int:
        """The right edge of what belongs to panels."""
        return math.ceil(max(float(self._box(axes).x1) for axes in group))

    def finish(self, title: str) -> Figure:
        box = Bbox.union([self._box(axes) for axes in self._boxes])
        text = self.figure.text(0, 0, title, fontsize=_TITLE_SIZE, color=INK, va="top")
        band = 2 * _TITLE_SIZE
        width = math.ceil(max(box.width, text.get_window_extent(self._renderer).width)) + 2 * _MARGIN
        height = math.ceil(box.height) + band + 2 * _MARGIN
        self.figure.set_size_inches(width / _DPI, height / _DPI)
        for axes, (left, top, w, h) in self._boxes.items():
            moved = (left + _MARGIN - math.floor(box.x0), top + _MARGIN + band - math.floor(_CANVAS - box.y1), w, h)
            self._place(axes, moved, width, height)
        text.set_position((_MARGIN / width, 1 - _MARGIN / height))
        return self.figure

    def _box(self, axes: Axes) -> Bbox:
        box = axes.get_tightbbox(self._renderer)
        assert box is not None
        return Bbox(box)

    def _place(self, axes: Axes, box: tuple[int, int, int, int], width: int, height: int) -> None:
        self._boxes[axes] = box
        left, top, w, h = box
        axes.set_position((left / width, 1 - (top + h) / height, w / width, h / height))
