"""Self-tests of harness.requirements.environment_decorators: what they set, and that they restore it."""

from __future__ import annotations

import os
import tempfile
import unittest
from unittest import mock

import torch.distributed as dist

from harness.requirements import with_dist_debug_levels, with_nccl_blocking_wait

LEVEL = "TORCH_DISTRIBUTED_DEBUG"
BLOCKING, ASYNC = "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING"


class DebugLevelsTest(unittest.TestCase):
    """The decorator ``with_dist_debug_levels``, with every level."""

    def setUp(self) -> None:
        self.seen: list[tuple[str, dist.DebugLevel]] = []
        self.addCleanup(dist.set_debug_level, dist.get_debug_level())

    def note(self, argument: int = 0, *, fail_at: str = "") -> int:
        self.seen.append((os.environ[LEVEL], dist.get_debug_level()))
        if os.environ[LEVEL] == fail_at:
            raise KeyError(fail_at)
        return argument

    def test_each_level_in_turn(self) -> None:
        with mock.patch.dict(os.environ, clear=True):
            dist.set_debug_level(dist.DebugLevel.INFO)
            result = with_dist_debug_levels(["DETAIL", "OFF"])(self.note)(7)
            self.assertNotIn(LEVEL, os.environ)
        self.assertEqual(self.seen, [("DETAIL", dist.DebugLevel.DETAIL), ("OFF", dist.DebugLevel.OFF)])
        self.assertEqual(result, 7)
        self.assertEqual(dist.get_debug_level(), dist.DebugLevel.INFO)

    def test_a_failure_ends_it_and_puts_everything_back(self) -> None:
        with mock.patch.dict(os.environ, {LEVEL: "INFO"}):
            dist.set_debug_level(dist.DebugLevel.OFF)
            with self.assertRaises(KeyError):
                with_dist_debug_levels(["INFO", "DETAIL", "OFF"])(self.note)(fail_at="DETAIL")
            self.assertEqual(os.environ[LEVEL], "INFO")
        self.assertEqual([level for level, _ in self.seen], ["INFO", "DETAIL"])
        self.assertEqual(dist.get_debug_level(), dist.DebugLevel.OFF)

    def test_a_barrier_after_each_level_while_there_is_a_group(self) -> None:
        events: list[str] = []

        @with_dist_debug_levels(["OFF", "info"])
        def noting() -> None:
            events.append(os.environ[LEVEL])

        with mock.patch.object(dist, "barrier", side_effect=lambda: events.append("barrier")):
            noting()
            self.assertEqual(events, ["OFF", "INFO"])
            events.clear()
            with tempfile.TemporaryDirectory() as directory:
                store = dist.FileStore(f"{directory}/store", 1)
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                self.addCleanup(dist.destroy_process_group)
                noting()
        self.assertEqual(events, ["OFF", "barrier", "INFO", "barrier"])


class BlockingWaitTest(unittest.TestCase):
    """The decorator ``with_nccl_blocking_wait`` and its variables."""

    def seen(self, environ: dict[str, str], fail: bool = False) -> dict[str, str]:
        inside: dict[str, str] = {}

        @with_nccl_blocking_wait
        def body() -> None:
            inside.update(os.environ)
            if fail:
                raise KeyError("body")

        with mock.patch.dict(os.environ, environ, clear=True):
            if fail:
                self.assertRaises(KeyError, body)
            else:
                body()
            self.assertEqual(dict(os.environ), environ)
        return inside

    def test_sets_the_one_and_takes_the_other_away(self) -> None:
        """Inside, one variable is set and the other unset; afterwards both are as before."""
        for environ in ({}, {BLOCKING: "0"}, {ASYNC: "1"}, {BLOCKING: "0", ASYNC: "3"}):
            for fail in (False, True):
                with self.subTest(environ=environ, fail=fail):
                    self.assertEqual(self.seen(environ, fail), {BLOCKING: "1"})


if __name__ == "__main__":
    unittest.main()
