"""Tests that batches that run at once get devices of their own."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from harness.runner.scheduling.device_pool import DevicePool
from harness.targets.device_set import DeviceSet
from suites.selftest.runner import runs

EIGHT = DeviceSet(tuple("abcdefgh"), "MY_DEVICES")


class DevicePoolTest(unittest.TestCase):
    """What ``environ`` hands out."""

    def test_in_turn(self) -> None:
        """A batch keeps its devices until it has ended, in another worker too; then others get them."""
        pool = DevicePool(EIGHT)
        self.assertEqual(pool.environ(1, 4), {"MY_DEVICES": "a,b,c,d"})
        self.assertEqual(pool.environ(2, 2), {"MY_DEVICES": "e,f"})
        self.assertEqual(pool.environ(1, 4), {"MY_DEVICES": "a,b,c,d"})
        pool.give_back(1)
        self.assertEqual(pool.environ(3, 6), {"MY_DEVICES": "g,h,a,b,c,d"})

    def test_shared(self) -> None:
        """Where devices take several ranks each, batches share them, and see each device once."""
        pool = DevicePool(DeviceSet(("a", "b", "a", "b"), "MY_DEVICES"))
        self.assertEqual(pool.environ(1, 3), {"MY_DEVICES": "a,b"})
        self.assertEqual(pool.environ(2, 1), {"MY_DEVICES": "b"})
        self.assertEqual([pool.held_by(key) for key in (1, 2, 3)], [3, 1, 0])
        pool.give_back(1)
        self.assertEqual(pool.environ(3, 2), {"MY_DEVICES": "a,b"})

    def test_none(self) -> None:
        """A batch that takes none sees all; so does every batch where a process cannot be shown some."""
        pool = DevicePool(EIGHT)
        self.assertEqual(pool.environ(1, 0), {})
        pool.give_back(1)
        self.assertEqual(DevicePool(DeviceSet(("0", "1"))).environ(1, 2), {})
        self.assertEqual(DevicePool(DeviceSet()).environ(1, 2), {})

    def test_more_than_there_are(self) -> None:
        """A test with more ranks than devices gets all of them, and says itself that they are too few."""
        self.assertEqual(DevicePool(DeviceSet(("0", "1"), "MY_DEVICES")).environ(1, 8), {"MY_DEVICES": "0,1"})

    @given(st.lists(st.integers(0, 8), max_size=30))
    def test_disjoint(self, demands: list[int]) -> None:
        """Whatever batches come and go, no device is held twice, and none is lost."""
        pool, held = DevicePool(EIGHT), dict[int, list[str]]()
        for key, number in enumerate(demands):
            while held and sum(len(names) for names in held.values()) + number > len(EIGHT.names):
                gone = min(held)
                del held[gone]
                pool.give_back(gone)
            said = pool.environ(key, number).get("MY_DEVICES", "")
            held[key] = said.split(",") if said else []
            self.assertEqual(len(held[key]), number)
            everything = [name for names in held.values() for name in names]
            self.assertEqual(len(everything), len(set(everything)))
            self.assertLessEqual(set(everything), set(EIGHT.names))


PLUGIN = """
    import torch.distributed as dist
    from harness.targets import Target

    dist.Backend.register_backend("doubled", lambda *arguments: None, devices=["cuda"])
    # What a machine with four GPUs would say; none of them is used.
    TARGET = Target("doubled", "cuda", {}, device_count=lambda: 4, synchronize=lambda: None)
"""
MODULE = """
    import torch.distributed as dist
    from datetime import timedelta
    from harness import MultiProcessTestCase

    class Held(MultiProcessTestCase):
        world_size = 2
        device_type = "cuda"

        def both(self):
            store = dist.FileStore(os.environ["HELD"])
            name = f"{self._testMethodName} {self.rank}"
            store.set(name, os.environ["CUDA_VISIBLE_DEVICES"])
            everybody = [f"{test} {rank}" for test in ("test_a", "test_b") for rank in (0, 1)]
            store.wait(everybody, timedelta(seconds=100))
            seen = {name: store.get(f"{name} {self.rank}").decode() for name in ("test_a", "test_b")}
            self.assertEqual(sorted(",".join(seen.values()).split(",")), ["1", "3", "5", "7"])

        def test_a(self):
            self.both()

        def test_b(self):
            self.both()
"""


class VisibleTest(runs.RunnerCase):
    """What ranks find in ``CUDA_VISIBLE_DEVICES``, with a double of what torch says of GPUs."""

    def test_disjoint(self) -> None:
        """Two tests at once have two GPUs each, of those that were left to the run."""
        self.write("doubled_cuda", PLUGIN)
        self.write("held", MODULE)
        done = self.run_tests(
            *("--plugin", "doubled_cuda", "held.py", "--jobs", "2", "--isolate"),
            HELD=str(self.directory / "store"),
            CUDA_VISIBLE_DEVICES="7,5,3,1",
        )
        self.assertEqual(done.code, 0, done.out)


if __name__ == "__main__":
    unittest.main()
