"""``Contender``: the interface of everything that is measured; it runs a body on ranks and gives a number."""

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
    """One way to run ranks. Each contender has a process of its own, which imports no other contender.

    ``kinds`` are the names of the kinds of measurement that it supports.
    """

    kinds: Collection[str] = tuple(name for name, kind in KINDS.items() if kind not in KEPT)

    @abc.abstractmethod
    def measure(self, kind: Kind, world_size: int) -> float:
        """Makes one measurement, in the kind's unit; raises MeasureError if it gives no number."""

    def warm(self) -> None:
        """Runs once without measuring, so that what is paid once a process has been paid."""
        self.measure(TEST, 2)


class CaseContender(Contender):
    """A contender that runs a unittest case, which its subclass makes."""

    @abc.abstractmethod
    def case(self, method: str) -> unittest.TestCase:
        """The test case whose method ``method`` runs a body on ranks."""

    def measure(self, kind: Kind, world_size: int) -> float:
        """Runs the case once as unittest does; fixtures and verdict are part of the measured time."""
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
    """The file to which a rank writes its measurement; the ranks get its path from the environment.

    The environment also tells them the world size and the process whose memory is measured.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        file = Path(directory, "spot")
        told = {bodies.WORLD_SIZE: str(world_size), bodies.SPOT: str(file), bodies.ROOT: str(os.getpid())}
        os.environ.update(told)
        yield file


def account(result: unittest.TestResult) -> str:
    """The tracebacks of a result's failures and errors, as unittest would print them."""
    return "\n".join(text for _, text in [*result.failures, *result.errors])
