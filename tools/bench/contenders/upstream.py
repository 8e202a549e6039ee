"""The contender that runs PyTorch's own ``MultiProcessTestCase``, which spawns ranks and polls them."""

from __future__ import annotations

import unittest

from torch.testing._internal import common_distributed

from tools.bench.bodies import Bodies
from tools.bench.contenders.base import CaseContender
from tools.bench.kinds import DEATH_SEEN, MEMORY, TEST


class UpstreamBodiesCase(Bodies, common_distributed.MultiProcessTestCase):  # type: ignore[misc]  # torch is Any to mypy here
    """The bodies as tests on upstream's ranks."""

    def setUp(self) -> None:
        """Starts the ranks, as every case on upstream's harness does."""
        super().setUp()
        self._spawn_processes()


class Upstream(CaseContender):
    """Upstream's harness on fresh ranks.

    ``DEATH_UNSEEN`` is not measured: upstream notices such a death only at the test's deadline, after 300 s.
    """

    kinds = (TEST.name, MEMORY.name, DEATH_SEEN.name)

    def case(self, method: str) -> unittest.TestCase:
        """The test case whose method runs one of the bodies."""
        case = UpstreamBodiesCase(method)
        assert isinstance(case, unittest.TestCase)
        return case
