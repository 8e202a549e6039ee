"""Says what to do where a rank lacks an attribute that the test's fixtures have set in the parent."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.outcomes import ErrorInfo, TestOutcome

# What Python says of an instance, and of a class.
_LACKED = re.compile(r"(?:'(\w+)' object|type object '(\w+)') has no attribute '(\w+)'")


def hints(case: object, outcome: TestOutcome) -> tuple[str, ...]:
    """A line for each attribute of the test's class or instance that only the parent's has.

    That is the class of a plain class's instance where the test is a function on ranks.
    """
    plain = getattr(case, "plain_instance", None)
    owner, hint = (case, _hint) if plain is None else (plain, _hint_of_plain)
    lacked = {name for error in _errors(outcome) if (name := _lacked(error, type(owner).__name__))}
    return tuple(hint(owner, name) for name in sorted(lacked) if hasattr(owner, name))


def _errors(outcome: TestOutcome) -> Iterable[ErrorInfo]:
    for rank in outcome.ranks:
        of_subtests = (subtest.error for subtest in rank.subtests)
        yield from (error for error in (rank.error, *of_subtests) if error is not None)


def _lacked(error: ErrorInfo, case: str) -> str | None:
    """The attribute that the class of this name lacks according to the error; None for any other error."""
    said = _LACKED.search(error.message) if error.type_name == "AttributeError" else None
    return said[3] if said is not None and case in (said[1], said[2]) else None


def _hint(case: object, name: str) -> str:
    fixture, what = ("setUp", "self") if name in vars(case) else ("setUpClass", "cls")
    return (
        f"{what}.{name} was set by {fixture}, which runs in the process that starts the ranks. Each rank has "
        f"an instance of its own, of the module as imported: set it in setUpRank, which runs in each rank"
    )


def _hint_of_plain(instance: object, name: str) -> str:
    if name not in vars(instance):
        cls = type(instance).__name__
        why = f"{cls}.{name} was set in pytest's process, and ranks have the class as imported"
    else:
        kind = type(vars(instance)[name]).__name__
        why = f"self.{name} was set in pytest's process, and a {kind} there cannot be pickled for ranks"
    return f"{why}: set it in the test, or what can be pickled on self, of which each rank gets a copy"
