"""Tests runs over hosts with accelerators: those of each host, and tests that take some of both."""

from __future__ import annotations

import unittest

from suites.selftest.runner.runs import PATIENCE_S, RUN_TESTS, Finished
from suites.selftest.runner.test_other_hosts import WORDS, SharedRunCase
from suites.targets.hostmem_device.library import missing

DOUBLED = """
    import torch.distributed as dist
    from harness.targets import Target

    dist.Backend.register_backend("doubled", lambda *arguments: None, devices=["cuda"])
    # What a host with four GPUs would say; none of them is used.
    TARGET = Target("doubled", "cuda", {}, device_count=lambda: 4, synchronize=lambda: None)
"""
HELD = """
    import time
    from pathlib import Path
    from harness import MultiProcessTestCase

    class Held(MultiProcessTestCase):
        device_type = "cuda"

        def hold(self):
            name = f"{self._testMethodName} {os.environ['HOSTNAME']} {self.rank}"
            Path("held", name).write_text(os.environ["CUDA_VISIBLE_DEVICES"])
            return Path("held")

    class Whole(Held):
        world_size = 2

        def meet(self):
            while len(list(self.hold().iterdir())) < 8:
                time.sleep(0.05)

        test_a = test_b = test_c = test_d = meet

    class Spanning(Held):
        world_size = 6

        def test_all(self):
            self.hold()
"""


class VisibleDevicesTest(SharedRunCase):
    """Two hosts with four GPUs each, as a plugin says, and a variable on each that names them."""

    HERE, OTHER = "7,5,3,1", "6,4,2,0"

    def held(self, name: str) -> dict[str, list[str]]:
        """What the ranks of a class's tests saw, by test, host and rank."""
        self.write("doubled_cuda", DOUBLED)
        self.write("test_held", HELD)
        (self.directory / "held").mkdir()
        agent, where, variables = self.start_agent(CUDA_VISIBLE_DEVICES=self.OTHER)
        words = ("--plugin", "doubled_cuda", "--isolate", "-j", "2", f"test_held.{name}")
        run = self.run_tests("--hosts", f"2@{where}", *words, CUDA_VISIBLE_DEVICES=self.HERE, **variables)
        self.assertEqual((run.code, agent.wait(PATIENCE_S)), (0, 0), run.out + run.err)
        files = (self.directory / "held").iterdir()
        return {file.name: file.read_text().split(",") for file in files}

    def test_whole(self) -> None:
        """Two tests at once on each host have two of that host's GPUs each, and share none."""
        seen = self.held("Whole")
        for host, gpus in (("here", self.HERE), ("other", self.OTHER)):
            for rank in ("0", "1"):
                found = [each for name, each in seen.items() if name.split()[1:] == [host, rank]]
                self.assertEqual([len(each) for each in found], [2, 2])
                self.assertEqual({gpu for each in found for gpu in each}, set(gpus.split(",")))

    def test_spanning(self) -> None:
        """A test of six ranks has three GPUs of each host, by the names that these have there."""
        seen = self.held("Spanning")
        self.assertEqual(len(seen), 6)
        for host, gpus in (("here", self.HERE), ("other", self.OTHER)):
            found = [each for name, each in seen.items() if name.split()[1] == host]
            self.assertEqual(found, 3 * [gpus.split(",")[:3]])


@unittest.skipIf(missing(), "hostmem has to be compiled")
class AcceleratorsTest(SharedRunCase):
    """Tests that need more accelerators than one host has."""

    def run_on(self, devices: int) -> Finished:
        """A test of four ranks over two hosts, each with so many accelerators."""
        test = "suites.c10d.test_collectives.CollectivesWorldSize4Test.test_all_reduce_sum"
        words = ("--plugin", "suites.targets.hostmem", "--suites", test)
        variables = {"HOSTMEM_DEVICES": str(devices), "PYTHONPATH": str(RUN_TESTS.parent)}
        agent, where, more = self.start_agent()
        run = self.run_tests("--hosts", f"2@{where}", *WORDS, *words, **variables, **more)
        self.assertEqual(agent.wait(PATIENCE_S), 0)
        return run

    def test_enough(self) -> None:
        """Two on each of two hosts are four, and each rank has one of its own."""
        run = self.run_on(2)
        self.assertEqual(set(run.statuses.values()), {"passed"}, run.out + run.err)
        hosts = [rank.host for rank in run.records[0].ranks]
        self.assertEqual((len(hosts), len(set(hosts)), hosts.count("other")), (4, 2, 2))

    def test_too_few(self) -> None:
        """Where all hosts together have too few, the test skips, and says what there is."""
        run = self.run_on(1)
        self.assertEqual(set(run.statuses.values()), {"skipped"}, run.out + run.err)
        self.assertRegex(run.records[0].reason, "needs 4 accelerators.* has 1 here and 1 on other hosts")


if __name__ == "__main__":
    unittest.main()
