"""Says what to do where a test's method was called without an argument: nobody parametrizes it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.outcomes import ErrorInfo, TestOutcome

# What Python says of a call without arguments; the last part of a dotted name is the function's own.
_MISSING = re.compile(r"([\w.<>]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.+)")


def hints(case: object, outcome: TestOutcome) -> tuple[str, ...]:
    """A line about the arguments that the test's own method lacks; none for any other call."""
    method = getattr(case, "_testMethodName", "")
    found = dict.fromkeys(said for error in _errors(outcome) if (said := _missing(error, method)))
    return tuple(_hint(type(case).__name__, arguments) for arguments in found)


def _errors(outcome: TestOutcome) -> Iterable[ErrorInfo]:
    return (rank.error for rank in outcome.ranks if rank.error is not None)


def _missing(error: ErrorInfo, method: str) -> str:
    """The arguments, as Python names them, without which the method was called; "" for any other error."""
    said = _MISSING.match(error.message) if error.type_name == "TypeError" else None
    return said[2] if said is not None and said[1].rpartition(".")[2] == method else ""


def _hint(cls: str, arguments: str) -> str:
    return (
        f"nobody gives {arguments} a value: after @parametrize of harness, "
        f"instantiate_parametrized_tests({cls}) has to stand below the class; fixtures and parameters of "
        "pytest are for functions and plain classes (@pytest.mark.ranks(N)), not for methods of a TestCase"
    )
