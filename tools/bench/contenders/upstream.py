"""PyTorch's own ``MultiProcessTestCase``: spawned ranks, a poll for their ends."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Iterator

from torch.testing._internal import common_distributed

from tools.bench.bodies import Bodies
from tools.bench.contenders.base import CaseContender
from tools.bench.kinds import DEATH_UNSEEN, Kind

# Seconds, in place of upstream's 300: it takes all of them, whatever they are. Its ranks need up to ten to
# start on a loaded machine.
SHORT_TIMEOUT_S = 30


class Case(Bodies, common_distributed.MultiProcessTestCase):  # type: ignore[misc]  # torch is Any to mypy here
    """The bodies on upstream's ranks."""

    def setUp(self) -> None:
        """Starts the ranks, as its users' cases do."""
        super().setUp()
        self._spawn_processes()


class Upstream(CaseContender):
    """Upstream's harness."""

    def case(self, method: str) -> unittest.TestCase:
        """The case for one body."""
        case = Case(method)
        assert isinstance(case, unittest.TestCase)
        return case

    def measure(self, kind: Kind, world_size: int) -> float:
        """As for any case; a death that peers do not see is found at the deadline, so that is made short."""
        with _short_timeout() if kind is DEATH_UNSEEN else contextlib.nullcontext():
            return super().measure(kind, world_size)


@contextlib.contextmanager
def _short_timeout() -> Iterator[None]:
    kept = common_distributed.TIMEOUT_DEFAULT
    common_distributed.TIMEOUT_DEFAULT = SHORT_TIMEOUT_S
    try:
        yield
    finally:
        common_distributed.TIMEOUT_DEFAULT = kept
