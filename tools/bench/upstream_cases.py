"""Upstream's case classes for the measurements of kept ranks, each with a no-op test.

The classes are at the module's top level, because upstream's ranks are new interpreters that import them by
name.
"""

from __future__ import annotations

import unittest

from torch.testing._internal import common_distributed


class UpstreamPooledNoOp(common_distributed.MultiProcContinuousTest):  # type: ignore[misc]  # torch is Any to mypy here
    """A no-op test on upstream's pooled ranks."""

    @classmethod
    def backend_str(cls) -> str:
        """The backend of every contender."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The device type of every contender."""
        return "cpu"

    def test_nothing(self) -> None:
        """Does nothing."""


class UpstreamPooledNoOp2(UpstreamPooledNoOp):
    """A no-op test on two of upstream's pooled ranks."""

    world_size = 2


class UpstreamPooledNoOp4(UpstreamPooledNoOp):
    """A no-op test on four of upstream's pooled ranks."""

    world_size = 4


class UpstreamThreadedNoOp(common_distributed.MultiThreadedTestCase):  # type: ignore[misc]  # torch is Any to mypy here
    """A no-op test on upstream's ranks that are threads."""

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def test_nothing(self) -> None:
        """Does nothing."""


class UpstreamThreadedNoOp2(UpstreamThreadedNoOp):
    """A no-op test on two of upstream's threads."""

    world_size = 2


class UpstreamThreadedNoOp4(UpstreamThreadedNoOp):
    """A no-op test on four of upstream's threads."""

    world_size = 4


CONTINUOUS: dict[int, type[unittest.TestCase]] = {2: UpstreamPooledNoOp2, 4: UpstreamPooledNoOp4}
THREADED: dict[int, type[unittest.TestCase]] = {2: UpstreamThreadedNoOp2, 4: UpstreamThreadedNoOp4}
