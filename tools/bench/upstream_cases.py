"""Upstream's case classes for kept ranks, each with a no-op. Classes of a module's top level: its ranks are
new interpreters, which find them by name."""

from __future__ import annotations

import unittest

from torch.testing._internal import common_distributed


class UpstreamPooledNoOp(common_distributed.MultiProcContinuousTest):  # type: ignore[misc]  # torch is Any to mypy here
    """A no-op on upstream's pooled ranks."""

    @classmethod
    def backend_str(cls) -> str:
        """As every contender's."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """As every contender's."""
        return "cpu"

    def test_nothing(self) -> None:
        """Nothing."""


class UpstreamPooledNoOp2(UpstreamPooledNoOp):
    """On two ranks."""

    world_size = 2


class UpstreamPooledNoOp4(UpstreamPooledNoOp):
    """On four ranks."""

    world_size = 4


class UpstreamThreadedNoOp(common_distributed.MultiThreadedTestCase):  # type: ignore[misc]  # torch is Any to mypy here
    """A no-op on upstream's threads."""

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def test_nothing(self) -> None:
        """Nothing."""


class UpstreamThreadedNoOp2(UpstreamThreadedNoOp):
    """On two ranks."""

    world_size = 2


class UpstreamThreadedNoOp4(UpstreamThreadedNoOp):
    """On four ranks."""

    world_size = 4


CONTINUOUS: dict[int, type[unittest.TestCase]] = {2: UpstreamPooledNoOp2, 4: UpstreamPooledNoOp4}
THREADED: dict[int, type[unittest.TestCase]] = {2: UpstreamThreadedNoOp2, 4: UpstreamThreadedNoOp4}
