"""Signatures and help of calls whose options the library describes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native

Call = TypeVar("Call", bound=Callable[..., Any])

#: How long documents are read.
READING = [
    ("truncate", "bool", False, "of a document that is too long for the model, keep the first tokens"),
    ("stride", "int", None, "read a document that is too long for the model in segments that overlap by N tokens"),
    ("global_attention", "str", None, "tokens with global attention, as cls,every:64"),
    ("batch_tokens", "int", 8192, "tokens of one forward pass"),
]


def described(call: str, reading: bool = False) -> Callable[[Call], Call]:
    """Puts the options of a call of the library in place of **options: in the signature, and in the help."""

    def describe(function: Call) -> Call:
        signature = inspect.signature(function)
        named = [p for p in signature.parameters.values() if p.kind != inspect.Parameter.VAR_KEYWORD]
        known = {parameter.name for parameter in named}
        options = [one for one in _native.options_of(call) + (READING if reading else []) if one[0] not in known]
        # A name that stands twice, as the format of two readers, has one meaning.
        options = list({name: (name, *rest) for name, *rest in options}.values())
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
