"""Says what to do about errors of Python's or torch's that come of how a test with ranks is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.cases import misspelt_attributes
from harness.outcomes import ErrorInfo, TestOutcome

# What Python says of a call without arguments; the last part of a dotted name is the function's own.
_MISSING = re.compile(r"([\w.<>]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
# What torch says where there is no default group, and where one is made as under torchrun.
_NO_GROUP = re.compile(
    r"Default process group has not been initialized"
    r"|Error initializing torch\.distributed using env:// rendezvous: environment variable \w+ expected"
)


def hints(case: object, outcome: TestOutcome) -> tuple[str, ...]:
    """A line for each such mistake in the ranks of a case's test, and for a misspelt name of its class."""
    said = (*(_hint(case, error) for error in _errors(outcome)), misspelt_attributes.hint(type(case)))
    return tuple(dict.fromkeys(hint for hint in said if hint))


def _errors(outcome: TestOutcome) -> Iterable[ErrorInfo]:
    return (rank.error for rank in outcome.ranks if rank.error is not None)


def _hint(case: object, error: ErrorInfo) -> str:
    if error.type_name == "ValueError" and _NO_GROUP.match(error.message):
        making = getattr(case, "what_makes_a_group", "")  # any TestCase may have a test on threads
        return making and f"the test has made no process group: {making}"
    missing = _MISSING.match(error.message) if error.type_name == "TypeError" else None
    if missing is None or missing[1].rpartition(".")[2] != getattr(case, "_testMethodName", ""):
        return ""
    return (
        f"nobody gives {missing[2]} a value: pytest gives parameters and fixtures to functions and plain "
        "classes (@pytest.mark.ranks(N)), not to methods of a TestCase; harness.parametrize does, with "
        "@instantiate_parametrized_tests above the class"
    )
