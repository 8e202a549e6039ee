"""``given``, hypothesis's own without its clocks: on a loaded machine an example may take any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import hypothesis
from hypothesis import strategies

Test = TypeVar("Test", bound=Callable[..., Any])

UNHURRIED = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])


def given(*drawn: strategies.SearchStrategy[Any]) -> Callable[[Test], Callable[..., None]]:
    """``hypothesis.given``, with no deadline an example and no complaint about slow drawing."""

    def decorate(test: Test) -> Callable[..., None]:
        return UNHURRIED(hypothesis.given(*drawn)(test))

    return decorate
