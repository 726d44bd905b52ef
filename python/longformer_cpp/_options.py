"""Signatures and help of calls whose options the library describes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native

Call = TypeVar("Call", bound=Callable[..., Any])


def described(*calls: str) -> Callable[[Call], Call]:
    """Adds the options of calls of the library, with their help, to the help of a function, and to its signature where
    it takes **options."""

    def describe(function: Call) -> Call:
        signature = inspect.signature(function)
        named = [p for p in signature.parameters.values() if p.kind != inspect.Parameter.VAR_KEYWORD]
        is_open = len(named) < len(signature.parameters)
        known = {parameter.name for parameter in named}
        # A name that stands twice, as the format of two readers, has one meaning.
        listed = {name: (name, *rest) for call in calls for name, *rest in _native.options_of(call)}
        options = [one for name, one in listed.items() if is_open != (name in known)]
        if is_open:
            more = [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind if default is not None else f"{kind} | None")
                for name, kind, default, _ in options
            ]
            function.__signature__ = signature.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        lines = [
            textwrap.fill(f"{name}: {help}", 100, initial_indent="    ", subsequent_indent=" " * 8) for name, _, _, help in options
        ]
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOptions:\n" + "\n".join(lines)
        return function

    return describe
