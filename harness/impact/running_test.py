"""Which test runs, said in an environment variable, which its ranks and children get as any other.

``HARNESS_RUNNING_TEST`` is unset in ordinary runs. Where it is set and empty, workers put the id of each test
into it; around the fixtures of a class or module, the class's or module's name. A run that a test starts
finds the outer test's id, and leaves it there: what it executes is the outer test's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from harness.settings import EnvVar

# As ``os.environ`` keeps it: reading it there takes a tenth of the time.
_VARIABLE = EnvVar.RUNNING_TEST.encode()


def running_test() -> bytes:
    """The id of the test, or the name of the class or module whose fixture runs; empty outside of these."""
    variables: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]  # as the comment says
    return variables.get(_VARIABLE, b"")


@contextlib.contextmanager
def noted(name: str) -> Iterator[None]:
    """Says while the context lasts that ``name`` runs, where the variable is there and empty."""
    if os.environ.get(EnvVar.RUNNING_TEST) != "":
        yield
        return
    os.environ[EnvVar.RUNNING_TEST] = name
    try:
        yield
    finally:
        os.environ[EnvVar.RUNNING_TEST] = ""
