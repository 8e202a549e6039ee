"""Tests what a rank of each mode sees of its own communication, and where nothing is recorded."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import unittest
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from harness import (
    Communication,
    DistributedTestBase,
    DTensorTestBase,
    LocalDTensorTestBase,
    MultiProcContinuousTest,
    MultiThreadedTestCase,
    UsageError,
    record_communication,
    recorded_communication,
    with_comms,
)
from harness.communication.call_log import ENTRIES, LOG_BYTES, CallLog
from harness.communication.history import history_of, parts
from harness.communication_call import Call, Kind
from suites.selftest.communication.samples import call, receive, send
from suites.selftest.forked_case import ForkedCase

ROOT = Path(__file__).parents[3]
HERE = "suites.selftest.communication.test_history"
ON_BOTH = "on {0, 1}"


def talk(rank: int) -> None:
    """Communicates on both ranks of a group."""
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(2, 2), 1)
    dist.all_gather_object([None, None], "text")
    if rank == 0:
        dist.send(torch.ones(4), 1, tag=5)
    else:
        dist.recv(torch.ones(4), 0, tag=5)


def check(case: unittest.TestCase, rank: int) -> None:
    """Looks at what this rank communicates in ``talk``."""
    before = recorded_communication()
    with record_communication() as seen:
        talk(rank)
        case.assertEqual(seen.calls, ())
    message = "send {} to rank 1 tag 5" if rank == 0 else "recv {} from rank 0 tag 5"
    whole = seen.lines[2]
    case.assertEqual(
        seen.lines,
        (
            f"all_reduce SUM (3,) float32 12 bytes {ON_BOTH}",
            f"broadcast (2, 2) float32 16 bytes root 1 {ON_BOTH}",
            whole,
            f"{message.format('(4,) float32 16 bytes')} {ON_BOTH}",
        ),
    )
    case.assertTrue(whole.startswith("all_gather_object (1,) int64"), whole)
    case.assertEqual(recorded_communication().lines, before.lines + seen.lines)
    case.assertEqual(seen.counts["broadcast"], 1)
    case.assertGreater(seen.nbytes, 44)
    case.assertEqual((len(seen.on(1, 0).calls), seen.on(0).calls), (4, ()))
    case.assertTrue(all("test_history.py" in each.place for each in seen.calls))


class FreshHistory(DistributedTestBase):
    """On fresh ranks."""

    world_size = 2

    def test_seen(self) -> None:
        self.create_pg("cpu")
        self.assertEqual(recorded_communication().calls, ())
        check(self, self.rank)

    def test_assertion(self) -> None:
        """The assertion is met, or fails with a diff; of a region that raised, nothing else is said."""
        self.create_pg("cpu")
        with self.assertCommunication(["all_reduce 12 bytes"]) as seen:
            dist.all_reduce(torch.ones(3))
        self.assertCommunication({"all_reduce": 1}, seen)
        unexpected = r"(?s)0 calls expected.*\n\+ barrier on \{0, 1\}  \("
        with self.assertRaisesRegex(AssertionError, unexpected), self.assertCommunication([]):
            dist.barrier()
        with self.assertRaises(KeyError), self.assertCommunication(["barrier"]):
            raise KeyError

    def test_backward_of_ddp(self) -> None:
        """What DDP starts in C++ is seen: here its buckets."""
        self.create_pg("cpu")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32, bias=False))
        with self.assertCommunication(["all_reduce SUM 4096 bytes on {0, 1}"]):
            model(torch.ones(2, 32)).sum().backward()


class PooledHistory(MultiProcContinuousTest):
    """On kept ranks: a test sees nothing of the test before."""

    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        return "cpu"

    def test_first(self) -> None:
        self.assertEqual(recorded_communication().calls, ())
        check(self, self.rank)

    def test_second(self) -> None:
        self.test_first()


class ThreadsHistory(MultiThreadedTestCase):
    """On threads: each sees its own."""

    world_size = 2

    def setUp(self) -> None:
        super().setUp()
        self._spawn_threads()

    def test_seen(self) -> None:
        with self.assertCommunication(["all_reduce (3,) float32"] * (1 + self.rank)):
            dist.all_reduce(torch.ones(3))
            if self.rank == 1:
                dist.all_reduce(torch.ones(3), group=self.own)

    def setUpRank(self) -> None:
        super().setUpRank()
        self.own = [dist.new_group([0]), dist.new_group([1])][self.rank]


class LoneHistory(DistributedTestBase):
    """A world of one."""

    world_size = 1

    def setUp(self) -> None:
        with self.assertRaisesRegex(UsageError, "no rank of a test"):  # in the parent
            recorded_communication()
        super().setUp()

    def test_seen(self) -> None:
        self.create_pg("cpu")
        with self.assertCommunication(["all_reduce on {0}"]):
            dist.all_reduce(torch.ones(3))


def redistributes(case: DTensorTestBase) -> None:
    """Gathers a sharded tensor."""
    mesh = case.build_device_mesh()
    distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]).redistribute(mesh, [Replicate()])


class DTensorHistory(DTensorTestBase):
    """A DTensor's collectives."""

    world_size = 2

    @with_comms
    def test_seen(self) -> None:
        with record_communication() as seen:
            redistributes(self)
        self.assertCommunication({"scatter": 1, "all_gather_into_tensor (2, 4)": 1}, seen)


class LocalHistory(LocalDTensorTestBase):
    """One process that plays all ranks."""

    world_size = 2

    @with_comms
    def test_refused(self) -> None:
        with self.assertRaisesRegex(UsageError, "one process plays all ranks"), record_communication():
            redistributes(self)


class UncheckedTest(ForkedCase):
    """In other processes."""

    def run_in(self, *command: str, **environ: str) -> None:
        """Runs a case of this file."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
        env = {**inherited, "PYTHONPATH": str(ROOT), **environ}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_without_the_check(self) -> None:
        """What is recorded does not depend on what is checked."""
        self.run_in(sys.executable, "-m", HERE, "FreshHistory.test_seen", HARNESS_COMM_CHECK="off")

    def test_external_ranks(self) -> None:
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
        self.run_in(*torchrun, "-m", HERE, "FreshHistory.test_seen")


class LogTest(unittest.TestCase):
    """What is made of a log."""

    def setUp(self) -> None:
        memory = mmap.mmap(-1, LOG_BYTES)
        self.log = CallLog(memory)

    def make(self, *calls: Call) -> None:
        """Writes calls into the log."""
        for each in calls:
            token = self.log.begin(self.log.text(each.signature), 0, each.sequence, each.number)
            if each.refused:
                self.log.raised(token, refused=True)

    def test_more_than_the_log_holds(self) -> None:
        """Nothing is told where something would be left out; a region has room of its own."""
        with history_of(self.log):
            self.make(*(call(number=n) for n in range(ENTRIES)))
            self.assertEqual(len(recorded_communication().calls), ENTRIES)
            with record_communication() as seen:
                self.make(call("barrier"))
            self.assertEqual(seen.lines, ("barrier on {0, 1, 2, 3}",))
            with self.assertRaisesRegex(UsageError, f"made {ENTRIES + 1} calls, .* the last {ENTRIES}"):
                recorded_communication()

    def test_what_is_left_out(self) -> None:
        """Groups, stores, findings, and calls that were refused for their arguments."""
        others = [call(kind=kind) for kind in set(Kind) - {Kind.COLLECTIVE, Kind.SEND, Kind.RECEIVE}]
        self.make(*others, call(refused=True), call("barrier"))
        with history_of(self.log):
            self.assertEqual(recorded_communication().counts, {"barrier": 1})

    def test_one_call_of_several(self) -> None:
        """The calls of the backend with one number are one of the user's; those of two groups are not."""
        first = call("gather_object", tensors="(1,) int64", nbytes=8)
        second = replace(call("gather_object", tensors="(5,) uint8", nbytes=5), sequence=2)
        other = call("gather_object", group="1")
        self.make(first, second, other, call("gather_object", number=2))
        with history_of(self.log):
            found = recorded_communication()
        self.assertEqual(len(found.calls), 3)
        self.assertEqual(found.lines[0], "gather_object (1,) int64, (5,) uint8 13 bytes on {0, 1, 2, 3}")

    def test_not_in_use(self) -> None:
        with history_of("so and so"), self.assertRaisesRegex(UsageError, "not? .*recorded here: so and so"):
            recorded_communication()

    def test_parts(self) -> None:
        table = {
            "recv from any rank on {0, 1, 2, 3}": receive(None),
            "send to rank 2 tag 1 on {0, 1, 2, 3}": send(2, 1),
            "reduce MAX (2,) f 8 bytes root 0 on {0, 1, 2, 3}": call(
                "reduce", reduce_op="MAX", root=0, tensors="(2,) f", nbytes=8
            ),
        }
        for line, each in table.items():
            with self.subTest(line):
                self.assertEqual(" ".join(parts(each)), line)
                self.assertEqual(Communication((each,)).lines, (line,))


if __name__ == "__main__":
    unittest.main()
