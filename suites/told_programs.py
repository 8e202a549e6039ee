"""``told_by``: what a program of one line tells, and how it is refused, as lines for an accepted table."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from suites.values_as_text import REFUSALS, text

#: What differs from one process to another.
_PASSING = re.compile(r" at 0x[0-9a-f]+| id='\d+'")
#: A set as Python writes it, in whose order its members' addresses have a part.
_SET = re.compile(r"\{([^{}:]+)\}")
_WORDS = 500


def told_by(program: str, names: Mapping[str, Any]) -> list[str]:
    """What the program gives ``tell``, its refusal and each of its warnings once, but not what it prints.

    A warning that blames a line elsewhere than in the program says in which file. An attribute that a
    ``SimpleNamespace`` of the program lacks is an error of the program, and is raised.

    ``patched`` puts another value in the place of an attribute, and ``entered`` enters a context, until the
    program ends.
    """
    told: list[str] = []

    def tell(*values: Any) -> None:
        told.extend(map(text, values))

    with (
        contextlib.ExitStack() as around,
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("always")

        def patched(holder: Any, name: str, *value: Any) -> Any:
            return around.enter_context(mock.patch.object(holder, name, *value))

        given = {"tell": tell, "noted": noted, "asked": asked, "patched": patched}
        try:
            exec(program, {**names, **given, "entered": around.enter_context})
        except REFUSALS as error:
            if isinstance(getattr(error, "obj", None), SimpleNamespace):
                raise  # what the program's own object lacks is no refusal of torch's
            told.append(f"{type(error).__name__}: {error}")
    told += dict.fromkeys(f"warns{_blamed(each)}: {each.message}" for each in warned)
    return [_lasting(" ".join(each.split()))[:_WORDS].rstrip() for each in told]


def told_warnings(warned: Iterable[warnings.WarningMessage]) -> list[str]:
    """A line for each warning: its first, and the file that it blames as in ``told_by``."""
    return [f"warns{_blamed(each)}: {str(each.message).splitlines()[0]}" for each in warned]


def _blamed(warning: warnings.WarningMessage) -> str:
    """In which file a warning says that it was caused, where that is not the program itself."""
    return "" if warning.filename == "<string>" else f" in {Path(warning.filename).name}"


def _lasting(line: str) -> str:
    """A line without what differs from one process to another."""
    return _SET.sub(lambda it: f"{{{', '.join(sorted(it[1].split(', ')))}}}", _PASSING.sub("", line))


def numbers(*shape: int, start: float = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers in order."""
    return torch.arange(start, start + torch.Size(shape).numel(), dtype=dtype).reshape(shape)


def called(function: Any, *args: Any, **named: Any) -> Any:
    """What a call gives, or is refused with; what an object lacks is no refusal."""
    try:
        return function(*args, **named)
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def noted(**attributes: Any) -> mock.MagicMock:
    """An object with these attributes, which notes all that is asked of it."""
    made = mock.MagicMock(name="it")
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def asked(made: mock.MagicMock) -> list[str]:
    """What was asked of an object that was made by ``noted``, in order."""
    return [f"{call[0]}({', '.join([*map(text, call[1]), *_named(call[2])])})" for call in made.mock_calls]


def _named(given: Mapping[str, Any]) -> list[str]:
    return [f"{name}={text(value)}" for name, value in given.items()]
