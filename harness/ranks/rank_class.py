"""Makes a subclass of the test's class for each rank, where several ranks or tests share one process."""

from __future__ import annotations

from typing import Any


def class_of_rank(case: Any) -> Any:
    """Returns a subclass with the class's names for one rank, which may set class attributes on it."""
    members = {"__module__": case.__module__, "__qualname__": case.__qualname__, "__doc__": case.__doc__}
    return type(case)(case.__name__, (case,), members)
