"""A rank's outcome and its sub-tests' as JSON values, and back, for the messages that carry them.

What is read may come from a process that a test has corrupted, so every plain field is checked.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from harness.communication_call import call_from_json, to_json
from harness.field_checks import checked
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome


def plain_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, with their values as they are."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


@functools.cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind))


def outcome_to_json(outcome: RankOutcome) -> dict[str, Any]:
    """A rank's outcome as JSON-able values; lossless with ``outcome_from_json``. Defaults are left out."""
    value = {n: v for n, v in plain_fields(outcome).items() if v != _OUTCOME_DEFAULTS[n]}
    value["status"] = outcome.status.value
    if outcome.error is not None:
        value["error"] = _error_to_json(outcome.error)
    if outcome.subtests:
        value["subtests"] = [subtest_to_json(s) for s in outcome.subtests]
    if outcome.calls:
        value["calls"] = [to_json(call) for call in outcome.calls]
    return value


_OUTCOME_DEFAULTS = {f.name: f.default for f in dataclasses.fields(RankOutcome)}


def outcome_from_json(value: dict[str, Any], **known: Any) -> RankOutcome:
    """The outcome of JSON values, in which ``known`` fields override the values.

    KeyError, TypeError or ValueError where the values are not an outcome.
    """
    rich = {name: read(value[name]) for name, read in _RICH_FIELDS.items() if name in value}
    return RankOutcome(**{**checked(RankOutcome, value), **rich, **known})


def _error_to_json(error: ErrorInfo | None) -> dict[str, Any] | None:
    if error is None:
        return None
    pickled = base64.b64encode(error.pickled).decode() if error.pickled is not None else None
    return {**plain_fields(error), "pickled": pickled}


def _error_from_json(value: dict[str, Any] | None) -> ErrorInfo | None:
    if value is None:
        return None
    pickled = base64.b64decode(value["pickled"]) if value["pickled"] is not None else None
    return ErrorInfo(**{**checked(ErrorInfo, value), "pickled": pickled})


def subtest_to_json(subtest: SubtestOutcome) -> dict[str, Any]:
    """A sub-test's outcome as JSON-able values; lossless with ``subtest_from_json``."""
    return {**plain_fields(subtest), "status": subtest.status.value, "error": _error_to_json(subtest.error)}


# How a sub-test may end. A rank that dies or hangs in one says nothing of it.
_SUBTEST_ENDS = {s.value: s for s in (Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR)}


def subtest_from_json(value: dict[str, Any]) -> SubtestOutcome:
    """The sub-test's outcome of JSON values; KeyError, TypeError or ValueError where they are none."""
    rich = {
        "params": tuple((name, shown) for name, shown in map(_texts, value["params"])),
        "status": _SUBTEST_ENDS[value["status"]],
        "error": _error_from_json(value["error"]),
    }
    return SubtestOutcome(**{**checked(SubtestOutcome, value), **rich})


def _texts(values: Any) -> tuple[str, ...]:
    if type(values) is not list or any(type(value) is not str for value in values):
        raise TypeError("no list of texts")
    return tuple(values)


_RICH_FIELDS: dict[str, Callable[[Any], Any]] = {
    "status": Status,
    "error": _error_from_json,
    "subtests": lambda values: tuple(subtest_from_json(s) for s in values),
    "calls": lambda values: tuple(map(call_from_json, values)),
    "accepted": tuple,
    "left": _texts,
    "warned": _texts,
}
