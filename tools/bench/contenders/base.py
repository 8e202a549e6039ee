"""What a contender is: something that runs a body on N ranks and says what that took."""

from __future__ import annotations

import abc
import contextlib
import os
import tempfile
import time
import unittest
from collections.abc import Collection, Iterator
from pathlib import Path

from tools.bench import bodies
from tools.bench.kinds import KEPT, KINDS, TEST, Kind, MeasureError, value


class Contender(abc.ABC):
    """One way to run ranks. Lives in a process of its own, which has imported nothing of the others.

    ``kinds`` are the names of the kinds that it can be measured by.
    """

    kinds: Collection[str] = tuple(name for name, kind in KINDS.items() if kind not in KEPT)

    @abc.abstractmethod
    def measure(self, kind: Kind, world_size: int) -> float:
        """One measurement in the kind's unit; MeasureError where it gave none."""

    def warm(self) -> None:
        """Pays, unmeasured, what is paid once a process."""
        self.measure(TEST, 2)


class CaseContender(Contender):
    """A contender that runs unittest cases: subclasses say which."""

    @abc.abstractmethod
    def case(self, method: str) -> unittest.TestCase:
        """The case that runs one of ``bodies`` on ranks."""

    def measure(self, kind: Kind, world_size: int) -> float:
        """Runs the case once, as unittest does: fixtures and verdict are part of what is measured."""
        with spot(world_size) as file:
            result = unittest.TestResult()
            started = time.monotonic()
            self.case(kind.method).run(result)
            ended = time.monotonic()
            written = file.read_text() if file.exists() else ""
        try:
            return value(kind, started, ended, written, result.wasSuccessful())
        except MeasureError as error:
            raise MeasureError(f"{error}\n{account(result)}") from None


@contextlib.contextmanager
def spot(world_size: int) -> Iterator[Path]:
    """The file for what a rank writes down; tells the ranks of it and of the world size."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        file = Path(directory, "spot")
        told = {bodies.WORLD_SIZE: str(world_size), bodies.SPOT: str(file), bodies.ROOT: str(os.getpid())}
        os.environ.update(told)
        yield file


def account(result: unittest.TestResult) -> str:
    """What unittest would print of a test that failed."""
    return "\n".join(text for _, text in [*result.failures, *result.errors])
