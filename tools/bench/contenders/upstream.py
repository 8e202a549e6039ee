"""PyTorch's own ``MultiProcessTestCase``: spawned ranks, a poll for their ends."""

from __future__ import annotations

import unittest

from torch.testing._internal import common_distributed

from tools.bench.bodies import Bodies
from tools.bench.contenders.base import CaseContender
from tools.bench.kinds import DEATH_SEEN, MEMORY, TEST


class UpstreamBodiesCase(Bodies, common_distributed.MultiProcessTestCase):  # type: ignore[misc]  # torch is Any to mypy here
    """The bodies on upstream's ranks."""

    def setUp(self) -> None:
        """Starts the ranks, as its users' cases do."""
        super().setUp()
        self._spawn_processes()


class Upstream(CaseContender):
    """Upstream's harness. A death that the peers do not see it finds at the test's deadline, 300 s after its
    start: that is not measured."""

    kinds = (TEST.name, MEMORY.name, DEATH_SEEN.name)

    def case(self, method: str) -> unittest.TestCase:
        """The case for one body."""
        case = UpstreamBodiesCase(method)
        assert isinstance(case, unittest.TestCase)
        return case
