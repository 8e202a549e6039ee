"""What the profiler sees of collectives: one event each, by its name, with the shape of what goes in."""

from __future__ import annotations

import copy
import sys
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d.base import C10dTestCase
from suites.c10d.ddp_base import DdpTestCase

SHAPE = (2, 3)


def profiler():
    """Return a profiler of the CPU that takes down shapes."""
    return profile(activities=[ProfilerActivity.CPU], record_shapes=True)


def autograd_profiler():
    """Return the older one, which takes down the same."""
    return torch.autograd.profiler.profile(record_shapes=True)


def events_of(seen, prefix):
    """Return name and shapes of the events whose names begin so, in the order of their beginnings."""
    events = sorted(seen.function_events if hasattr(seen, "function_events") else seen.events(), key=_start)
    return [(event.name, event.input_shapes) for event in events if event.name.startswith(prefix)]


def _start(event):
    return event.time_range.start


@needs(Capability.PROFILING)
class ProfiledTest(C10dTestCase):
    """Two ranks."""

    world_size = 2

    def calls(self):
        """Return the collectives by the name of their event, each as a function of options, with the tensors
        that it fills on rank 0, and with what; it waits there for the other rank's part."""
        tensor = torch.full(SHAPE, self.rank + 1.0)
        outputs = [torch.zeros(SHAPE) for _ in self.members]
        here = outputs if self.rank == 0 else None
        return {
            "all_reduce": (partial(dist.all_reduce, tensor), [tensor], [3.0]),
            "broadcast": (partial(dist.broadcast, tensor, 1), [tensor], [2.0]),
            "reduce": (partial(dist.reduce, tensor, 0), [tensor], [3.0]),
            "all_gather": (partial(dist.all_gather, outputs, tensor), outputs, [1.0, 2.0]),
            "gather": (partial(dist.gather, tensor, here, 0), outputs, [1.0, 2.0]),
        }

    def check_seen(self, how, run):
        """Check that of each collective that ``run`` runs there is one event, with its tensor's shape."""
        for name in self.calls():
            with self.subTest(collective=name):
                call, filled, numbers = self.calls()[name]
                with how() as seen:
                    self.come_last(1, name, self.members)
                    run(call)
                    if self.rank == 0:
                        expected = [torch.full(SHAPE, number) for number in numbers]
                        for tensor, right in zip(filled, expected, strict=True):
                            self.same(tensor, right)
                    self.check_group_works()
                events = events_of(seen, f"{self.backend}:")
                self.assertEqual(
                    [event for event, _ in events], [f"{self.backend}:{name}", f"{self.backend}:all_reduce"]
                )
                self.assertEqual(events[0][1], [list(SHAPE)])

    def test_collectives(self):
        self.check_seen(profiler, lambda call: call())

    def test_collectives_async(self):
        self.check_seen(profiler, lambda call: call(async_op=True).wait())

    def test_collectives_autograd_profiler(self):
        self.check_seen(autograd_profiler, lambda call: call())

    def check_messages(self, how, send, receive):
        received = torch.zeros(SHAPE)
        with how() as seen:
            self.come_last(0, "about to receive", self.members)
            if self.rank == 0:
                send(torch.ones(SHAPE), 1)
            else:
                receive(received, 0)
                self.same(received, torch.ones(SHAPE))
        name = f"{self.backend}:send" if self.rank == 0 else f"{self.backend}:recv"
        self.assertEqual(events_of(seen, f"{self.backend}:"), [(name, [list(SHAPE)])])

    def test_send_recv_torch_profiler(self):
        self.check_messages(profiler, dist.send, dist.recv)

    def test_send_recv_autograd_profiler(self):
        self.check_messages(autograd_profiler, dist.send, dist.recv)

    def test_isend_torch_profiler(self):
        self.check_messages(
            profiler,
            lambda tensor, peer: dist.isend(tensor, peer).wait(),
            lambda tensor, peer: dist.irecv(tensor, peer).wait(),
        )

    def test_send_recv_any_source_torch_profiler(self):
        with profiler() as seen:
            if self.rank == 0:
                dist.send(torch.ones(SHAPE), 1)
            else:
                received = torch.zeros(SHAPE)
                self.assertEqual(dist.recv(received), 0)
                self.same(received, torch.ones(SHAPE))
        name = f"{self.backend}:send" if self.rank == 0 else f"{self.backend}:recvAnySource"
        self.assertEqual(events_of(seen, f"{self.backend}:"), [(name, [list(SHAPE)])])

    def test_barrier(self):
        with profiler() as seen:
            self.come_last(1, "about to enter", self.members)
            self.board.set(f"entered/{self.rank}", "here")
            dist.barrier()
            self.assertTrue(self.board.check(["entered/1"]))
        self.assertEqual(
            [name for name, _ in events_of(seen, f"{self.backend}:")], [f"{self.backend}:barrier"]
        )


@needs(Capability.PROFILING)
class ProfiledDdpTest(DdpTestCase):
    """What of DDP is seen."""

    def test_ddp_profiling_torch_profiler(self):
        model = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 2, bias=False)).to(self.device)
        # The second forward says in which order gradients come: from then on each layer has a bucket.
        plain, ddp = copy.deepcopy(model), self.wrap(model, bucket_cap_mb=0.00001)
        found = []
        for _ in range(8):
            rows = self.draw(4 * self.world_size, 4)
            with profiler() as seen:
                self.backward_beside(plain, ddp, rows, lambda one, part: one(part).square().mean())
            self.same_gradients(plain, ddp)
            self.assertEqual(len(events_of(seen, "DistributedDataParallel.forward")), 1)
            found.append(sorted(events_of(seen, f"{self.backend}:")))
        # Two of gloo's threads run them. Either may be the first to begin, and either may still be noting the
        # end of its own when nobody waits for it any more and the profiler stops: not each time.
        self.assertIn(
            [(f"{self.backend}:all_reduce", [[3 * 2]]), (f"{self.backend}:all_reduce", [[4 * 3]])], found[2:]
        )


if __name__ == "__main__":
    run_tests()
