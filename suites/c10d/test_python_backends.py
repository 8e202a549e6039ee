"""Process groups and backends that are written in Python: registered by name, made by torch, called by it.

``DummyProcessGroup`` moves nothing between ranks; each of its operations leaves another mark on the tensors,
so that a test sees which of them ran, and with which arguments.
"""

from __future__ import annotations

import importlib
import os
import sys
from datetime import timedelta
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import BackendConfig, _get_default_store

from harness import (  # noqa: F401  (unittest calls load_tests)
    MultiProcessTestCase,
    communication_check,
    load_tests,
    run_tests,
)

#: Below the harness's deadline for a test.
TIMEOUT = timedelta(seconds=60)


class DummyWork(dist._Work):
    """Work that was done before the handle was made."""

    def wait(self, timeout: float = 5.0) -> bool:
        return True


class DummyProcessGroup(dist.ProcessGroup):
    """A group whose operations touch this rank's tensors only; they come in the lists that C++ passes."""

    def getBackendName(self) -> str:
        return "Dummy"

    def allgather(self, outputs, inputs, options=None):
        for copies, tensor in zip(outputs, inputs, strict=True):
            for copy in copies:
                copy.copy_(tensor)
        return DummyWork()

    def allreduce(self, tensors, options=None):
        return self.marked(tensors, 2)

    def broadcast(self, tensors, options=None):
        return self.marked(tensors, 1)

    def reduce_scatter(self, outputs, inputs, options=None):
        for output, parts in zip(outputs, inputs, strict=True):
            output.copy_(parts[self.rank()])
        return DummyWork()

    def send(self, tensors, dst, tag=0):
        return self.marked(tensors, 1)

    def recv(self, tensors, src, tag=0):
        return self.marked(tensors, 2)

    def barrier(self, opts=None):
        """Meet over the default store: all say that they are here, and wait for the last."""
        store = _get_default_store()
        if store.add("TEST:DummyProcessGroup:barrier", 1) == self.size():
            store.set("TEST:DummyProcessGroup:all here", "")
        store.get("TEST:DummyProcessGroup:all here")
        return DummyWork()

    def marked(self, tensors, mark):
        for tensor in tensors:
            tensor.add_(mark)
        return DummyWork()


def create_dummy(store, rank, size, timeout):
    """Make a DummyProcessGroup, as torch asks for one."""
    return DummyProcessGroup(rank, size)


@communication_check("error")  # not "values": the numbers of its operations are wrong on purpose
class PythonProcessGroupExtensionTest(MultiProcessTestCase):
    """Four ranks that register a backend of their own."""

    # A backend that is registered stays so for the rest of the process.
    rank_modes = ("fresh",)
    world_size = 4

    def setUpRank(self):
        super().setUpRank()
        environ = mock.patch.dict(os.environ)
        environ.start()
        self.addCleanup(environ.stop)

    def register(self):
        dist.Backend.register_backend("dummy", create_dummy, devices=["cpu", "cuda"])

    def start(self, backend):
        """Make the default group by env://, on a port that rank 0's store has got from the kernel."""
        self.register()
        file = dist.FileStore(self.file_name, self.world_size)
        if self.rank == 0:
            self.server = dist.TCPStore(
                self.master_addr, 0, None, True, wait_for_workers=False, timeout=TIMEOUT
            )
            file.set("port", str(self.server.port))
        os.environ.update(
            MASTER_ADDR=self.master_addr,
            MASTER_PORT=file.get("port").decode(),
            # The store is there already: rank 0 is a client like the others.
            TORCHELASTIC_USE_AGENT_STORE="True",
        )
        dist.init_process_group(backend, rank=self.rank, world_size=self.world_size, timeout=TIMEOUT)

    def test_get_backend_name(self):
        self.assertEqual(DummyProcessGroup(0, 1).name(), "Dummy")

    def test_backend_class_attr(self):
        self.register()
        self.assertEqual(dist.Backend.DUMMY, "dummy")
        self.assertIs(dist.Backend._plugins["DUMMY"].creator_fn, create_dummy)

    def test_is_backend_available(self):
        self.assertEqual(dist.is_ucc_available(), dist.is_backend_available("ucc"))
        self.assertFalse(dist.is_backend_available("dummy"))
        self.register()
        self.assertTrue(dist.is_backend_available("dummy"))

    def test_backend_config(self):
        self.register()
        for given, expected in {
            "gloo": "cpu:gloo,cuda:gloo",
            "nccl": "cuda:nccl",
            "mpi": "cpu:mpi,cuda:mpi",
            "ucc": "cpu:ucc,cuda:ucc",
            "dummy": "cpu:dummy,cuda:dummy",
            "DUMMY": "cpu:dummy,cuda:dummy",
            dist.Backend.DUMMY: "cpu:dummy,cuda:dummy",
            "cpu:dummy,cuda:dummy": "cpu:dummy,cuda:dummy",
            "cpu:dummy,cuda:nccl": "cpu:dummy,cuda:nccl",
            "cpu:gloo,cuda:dummy": "cpu:gloo,cuda:dummy",
            "cpu:gloo,cuda:nccl": "cpu:gloo,cuda:nccl",
        }.items():
            with self.subTest(backend=given):
                self.assertEqual(str(BackendConfig(dist.Backend(given))), expected)
        for wrong in ("cpu:gloo,cuda:nccl,", "cpu:gloo,cuda:nccl,cpu:dummy"):
            with self.subTest(backend=wrong), self.assertRaises(ValueError):
                BackendConfig(dist.Backend(wrong))

    def test_init_process_group_with_multiple_backends(self):
        self.start("cpu:dummy,cuda:dummy")
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, self.world_size))
        sevens = torch.ones(2, 2) * 7
        outputs = [torch.zeros(2, 2) for _ in range(self.world_size)]
        dist.all_gather(outputs, sevens)
        self.assertEqual(outputs, [sevens] * self.world_size)
        dist.barrier()
        dist.destroy_process_group()
        self.assertFalse(dist.is_initialized())

    def check_backends(self, backends, expected):
        """Check what all_reduce makes of rank + 1 on the CPU in a group that has these backends."""
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers a backend
        with self.subTest(backends=backends):
            store = dist.PrefixStore(backends, dist.FileStore(self.file_name, self.world_size))
            dist.init_process_group(
                backends, store=store, rank=self.rank, world_size=self.world_size, timeout=TIMEOUT
            )
            self.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())
            tensor = torch.full((2,), self.rank + 1.0)
            dist.all_reduce(tensor)
            self.assertEqual(tensor, torch.full((2,), expected))
            dist.destroy_process_group()

    def test_backend_by_device(self):
        # The tensor's device chooses: one backend adds the ranks up, the other leaves tensors as they are.
        self.check_backends("cpu:gloo,cuda:fake", 10.0)
        self.check_backends("cpu:fake,cuda:gloo", self.rank + 1.0)

    def test_a_group_in_python_is_for_all_devices(self):
        # It is no backend of a group but a group. Whatever stands beside it is made, not asked and dropped at
        # once, which is too early for gloo on another rank that still connects.
        self.register()
        self.check_backends("cpu:fake,cuda:dummy", self.rank + 3.0)
        self.check_backends("cpu:dummy,cuda:fake", self.rank + 3.0)

    def test_collectives(self):
        self.start("dummy")
        mine = torch.full((2, 2), 7.0 + self.rank)
        outputs = [torch.zeros(2, 2) for _ in range(self.world_size)]
        dist.all_gather(outputs, mine)
        self.assertEqual(outputs, [mine] * self.world_size)
        dist.all_reduce(mine)
        self.assertEqual(mine, torch.full((2, 2), 9.0 + self.rank))
        zeros = torch.zeros(2, 2)
        self.assertTrue(dist.broadcast(zeros, 0, async_op=True).wait())
        self.assertEqual(zeros, torch.ones(2, 2))
        output = torch.zeros(2, 2)
        dist.reduce_scatter(output, [torch.full((2, 2), 1.0 + part) for part in range(self.world_size)])
        self.assertEqual(output, torch.full((2, 2), 1.0 + self.rank))
        dist.barrier()
        dist.destroy_process_group()

    def test_send_recv(self):
        self.start("dummy")
        sent, received = torch.zeros(2, 2), torch.zeros(2, 2)
        dist.send(sent, (self.rank + 1) % self.world_size)
        self.assertEqual(sent, torch.ones(2, 2))
        with self.assertRaisesRegex(ValueError, "destination rank should not be the same"):
            dist.send(sent, self.rank)
        dist.recv(received, (self.rank - 1) % self.world_size)
        self.assertEqual(received, torch.full((2, 2), 2.0))
        dist.barrier()
        # The group stays: a process may end with a group that Python has made.


if __name__ == "__main__":
    run_tests()
