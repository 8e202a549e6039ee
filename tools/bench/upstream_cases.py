"""Upstream's case classes for kept ranks, each with a no-op. Classes of a module's top level: its ranks are
new interpreters, which find them by name."""

from __future__ import annotations

import unittest

from torch.testing._internal import common_distributed


class Continuous(common_distributed.MultiProcContinuousTest):  # type: ignore[misc]  # torch is Any to mypy here
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


class Continuous2(Continuous):
    """On two ranks."""

    world_size = 2


class Continuous4(Continuous):
    """On four ranks."""

    world_size = 4


class Threaded(common_distributed.MultiThreadedTestCase):  # type: ignore[misc]  # torch is Any to mypy here
    """A no-op on upstream's threads."""

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def test_nothing(self) -> None:
        """Nothing."""


class Threaded2(Threaded):
    """On two ranks."""

    world_size = 2


class Threaded4(Threaded):
    """On four ranks."""

    world_size = 4


CONTINUOUS: dict[int, type[unittest.TestCase]] = {2: Continuous2, 4: Continuous4}
THREADED: dict[int, type[unittest.TestCase]] = {2: Threaded2, 4: Threaded4}
