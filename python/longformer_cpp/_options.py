"""Signatures and help of calls whose options the library describes."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from . import _native

Call = TypeVar("Call", bound=Callable[..., Any])
#: The heading of the options in a help.
_HEADING = "\n\nOptions:\n"


def described(*calls: str, but: Sequence[str] = ()) -> Callable[[Call], Call]:
    """Adds the options of calls of the library, with their help, to the help of a function, and to its signature where
    it takes **options."""

    def describe(function: Call) -> Call:
        signature, is_open, known = _named(function)
        # A name that stands twice, as the format of two readers, has one meaning.
        listed = {name: (name, *rest) for call in calls for name, *rest in _native.options_of(call) if name not in but}
        options = [one for name, one in listed.items() if is_open != (name in known)]
        if is_open:
            _add(
                function,
                signature,
                (
                    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind if default is not None else f"{kind} | None")
                    for name, kind, default, _ in options
                ),
            )
        _add_help(
            function,
            [textwrap.fill(f"{name}: {help}", 100, initial_indent="    ", subsequent_indent=" " * 8) for name, _, _, help in options],
        )
        return function

    return describe


def options_of_call(call: Callable[..., Any], *but: str) -> Callable[[Call], Call]:
    """Puts the options of another call, which a function hands its **options on to, into signature and help. Several of
    these add up; of options of one name the nearest to the function counts."""

    def describe(function: Call) -> Call:
        signature, _, known = _named(function)
        options = {
            one.name: one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in inspect.signature(call).parameters.values()
            if one.name != "self" and one.name not in but and one.name not in known and one.default is not inspect.Parameter.empty
        }
        _add(function, signature, options.values())
        helps = re.split(r"\n(?=    \S)", (call.__doc__ or "").partition(_HEADING)[2])
        _add_help(function, [text for text in helps if text.strip().partition(":")[0] in options])
        return function

    return describe


def _named(function: Callable[..., Any]) -> tuple[inspect.Signature, bool, set[str]]:
    """A signature, whether it takes **options, and the names of all else."""
    signature = inspect.signature(function)
    known = {one.name for one in signature.parameters.values() if one.kind != inspect.Parameter.VAR_KEYWORD}
    return signature, len(known) < len(signature.parameters), known


def _add(function: Callable[..., Any], signature: inspect.Signature, more: Iterable[inspect.Parameter]) -> None:
    named = [one for one in signature.parameters.values() if one.kind != inspect.Parameter.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=[*named, *more])  # type: ignore[attr-defined]


def _add_help(function: Callable[..., Any], lines: Sequence[str]) -> None:
    text = inspect.cleandoc(function.__doc__ or "")
    if lines:
        text += ("\n" if _HEADING in text else _HEADING) + "\n".join(lines)
    function.__doc__ = text
