"""A group of one rank: every collective reaches the backend, by whatever name the group was made."""

from __future__ import annotations

import sys
import tempfile
import warnings
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import MultiProcessTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.base import declares, gloo_only

#: Below the harness's deadline for a test.
TIMEOUT = timedelta(seconds=60)
#: Said to be available, and no backend: no choice at all, and one that a test registers first.
NO_BACKENDS = ("undefined", "fake")


def _usable(backend):
    """Return whether torch was built with this backend, and this machine has a device for it."""
    if not dist.is_backend_available(backend):
        return False
    devices = dist.Backend.backend_capability[backend]
    return any(each == "cpu" or torch.get_device_module(each).is_available() for each in devices)


class ProcessGroupWithDispatchedCollectivesTests(MultiProcessTestCase):
    """Groups of one rank by each way to name, or not to name, a backend."""

    world_size = 1

    def init(self, *backend):
        """Make the default group over a store that nobody has used."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        store = dist.FileStore(str(Path(directory.name, "store")), self.world_size)
        dist.init_process_group(
            *backend, store=store, rank=self.rank, world_size=self.world_size, timeout=TIMEOUT
        )
        return dist.group.WORLD

    def test_init_process_group_optional_backend(self):
        group = self.init()
        self.assertEqual((group.rank(), group.size()), (0, 1))
        # By default it is the backend of the machine's accelerator, and of the CPU where there is none.
        device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
        tensor = torch.full((2,), 3.0, device=device)
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.full((2,), 3.0, device=device))
        dist.destroy_process_group()
        self.assertFalse(dist.is_initialized())

    def test_init_process_group_for_all_backends(self):
        tried = []
        for backend in dist.Backend.backend_list:
            if backend not in NO_BACKENDS and _usable(backend):
                tried.append(backend)
                with self.subTest(backend=backend):
                    group = self.init(backend)
                    self.assertEqual((group.rank(), group.size()), (self.rank, self.world_size))
                    self.assertEqual(group.name(), backend)
                    dist.destroy_process_group()
        self.assertIn("gloo", tried)


@gloo_only
class GlooProcessGroupWithDispatchedCollectivesTests(ProcessGroupWithDispatchedCollectivesTests):
    """Every collective in a group of one on gloo: the rank gets its own back."""

    def setUpRank(self):
        super().setUpRank()
        warnings.filterwarnings("ignore", message="`torch.distributed.*deprecated", category=FutureWarning)

    def test_collectives(self):
        self.init("gloo")
        held = torch.tensor([[1.5, 2.5], [3.5, 4.5]])
        for name, call in {
            "reduce": lambda t: dist.reduce(t, dst=self.rank),
            "broadcast": lambda t: dist.broadcast(t, src=self.rank),
            "all_reduce": lambda t: dist.all_reduce(t),
            "barrier": lambda t: dist.barrier(),
        }.items():
            with self.subTest(collective=name):
                tensor = held.clone()
                self.assertIsNone(call(tensor))
                self.assertEqual(tensor, held)
        for name, call in {
            "all_gather": lambda out: dist.all_gather([out], held),
            "reduce_scatter": lambda out: dist.reduce_scatter(out, [held]),
            **({"all_to_all": lambda out: dist.all_to_all([out], [held])} if declares("all_to_all") else {}),
            "scatter": lambda out: dist.scatter(out, [held], src=self.rank),
        }.items():
            with self.subTest(collective=name):
                output = torch.zeros(2, 2)
                self.assertIsNone(call(output))
                self.assertEqual(output, held)

    def test_allreduce_coalesced(self):
        self.init("gloo")
        tensors = [torch.full((10, 10), 2.0), torch.full((3,), 5.0)]
        dist.all_reduce_coalesced(tensors, dist.ReduceOp.SUM)
        self.assertEqual(tensors, [torch.full((10, 10), 2.0), torch.full((3,), 5.0)])

    def test_allgather_coalesced(self):
        self.init("gloo")
        outputs = [[torch.zeros(10, 10)]]
        dist.all_gather_coalesced(outputs, [torch.ones(10, 10)])
        self.assertEqual(outputs, [[torch.ones(10, 10)]])

    def test_all_to_all_single(self):
        self.init("gloo")
        output = torch.zeros(2, 2)
        dist.all_to_all_single(output, torch.ones(2, 2))
        self.assertEqual(output, torch.ones(2, 2))

    def test_monitored_barrier(self):
        self.init("gloo")
        self.assertIsNone(dist.monitored_barrier())


if __name__ == "__main__":
    run_tests()
