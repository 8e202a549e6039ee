"""A rank's own subclass of the test's class, where several ranks or tests share one process."""

from __future__ import annotations

from typing import Any


def class_of_rank(case: Any) -> Any:
    """A subclass for one rank, alike in all that a test sees: what the rank sets on it is the rank's own."""
    members = {"__module__": case.__module__, "__qualname__": case.__qualname__, "__doc__": case.__doc__}
    return type(case)(case.__name__, (case,), members)
