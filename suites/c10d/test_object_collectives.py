"""The collectives on Python objects: any object that pickles, of another size on every rank."""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d.base import OnSubGroup, instantiate_world_sizes

#: Characters that rank r's text is longer than rank r - 1's: far more than the frame of a pickle.
STEP = 700


def payload(rank, part=0):
    """Return an object that names its origin: nested, with tensors, and larger the higher the rank."""
    return {
        "origin": (rank, part),
        "text": "\N{GREEK SMALL LETTER ALPHA}" * (STEP * rank + part),
        "tensors": [torch.arange(3.0) + rank, torch.tensor(part)],
        "nothing": None,
    }


@needs(Capability.OBJECTS)
class ObjectCollectives:
    """Objects on the default group."""

    def payloads(self, part=0):
        return [payload(member, part) for member in self.everyone]

    def empty(self):
        return [None] * len(self.members)

    def test_all_gather_object(self):
        outputs = self.empty()
        self.assertIsNone(dist.all_gather_object(outputs, payload(self.group_rank), group=self.group))
        self.assertEqual(outputs, self.payloads())

    def test_gather_object(self):
        for dst in self.everyone:
            outputs = self.empty() if self.group_rank == dst else None
            mine = payload(self.group_rank, dst)
            self.assertIsNone(dist.gather_object(mine, outputs, self.members[dst], group=self.group))
            self.assertEqual(outputs, self.payloads(dst) if self.group_rank == dst else None)

    def test_broadcast_object_list(self):
        for src in reversed(self.everyone):
            objects = [payload(self.group_rank), self.group_rank, None, "x" * self.group_rank]
            self.assertIsNone(dist.broadcast_object_list(objects, self.members[src], group=self.group))
            self.assertEqual(objects, [payload(src), src, None, "x" * src])

    def test_scatter_object_list(self):
        for src in reversed(self.everyone):
            parts = [payload(src, member) for member in self.everyone]
            output = ["replaced", "kept"]
            sent = parts if self.group_rank == src else None
            self.assertIsNone(dist.scatter_object_list(output, sent, self.members[src], group=self.group))
            self.assertEqual(output, [parts[self.group_rank], "kept"])

    def test_send_recv_object_list(self):
        for sender, receiver in permutations(reversed(self.everyone), 2):
            objects = [payload(sender, receiver), sender, None]
            if self.group_rank == sender:
                self.assertIsNone(dist.send_object_list(objects, self.members[receiver], group=self.group))
            elif self.group_rank == receiver:
                output = [None, None, "replaced"]
                source = dist.recv_object_list(output, self.members[sender], group=self.group)
                self.assertEqual((source, output), (self.members[sender], objects))

    def test_group_ranks(self):
        # The same by group rank.
        last = len(self.members) - 1
        outputs = self.empty() if self.group_rank == 0 else None
        dist.gather_object(payload(self.group_rank), outputs, group=self.group, group_dst=0)
        self.assertEqual(outputs, self.payloads() if self.group_rank == 0 else None)
        objects = [payload(self.group_rank)]
        dist.broadcast_object_list(objects, group=self.group, group_src=last)
        self.assertEqual(objects, [payload(last)])
        sent = self.payloads(1) if self.group_rank == last else None
        dist.scatter_object_list(objects, sent, group=self.group, group_src=last)
        self.assertEqual(objects, [payload(self.group_rank, 1)])


class SubGroupObjectCollectives(OnSubGroup, ObjectCollectives):
    """Objects on sub-groups."""


@needs(Capability.OBJECTS)
class ObjectRefusals:
    """What the object collectives refuse, and what they do to ranks outside of a group."""

    def test_not_to_be_pickled(self):
        with self.refused(AttributeError, "local object 'ObjectRefusals."):
            dist.all_gather_object([None] * self.world_size, lambda: None)
        self.check_group_works()

    def test_output_list_too_short(self):
        with self.assertRaises(IndexError):
            dist.all_gather_object([None] * (self.world_size - 1), self.rank)
        self.check_group_works()

    def test_scatter_without_output(self):
        message = "Expected argument scatter_object_output_list to be a list of size at least 1."
        with self.refused(ValueError, message):
            dist.scatter_object_list([], [None] * self.world_size, 0)
        self.check_group_works()

    def test_scatter_without_input(self):
        with self.refused(ValueError, "source rank must provide non-None scatter_object_input_list"):
            dist.scatter_object_list([None], None, self.rank)
        self.check_group_works()

    def test_send_recv_with_oneself(self):
        with self.refused(ValueError, "Invalid destination rank: destination rank should not be the same"):
            dist.send_object_list([1], self.rank)
        with self.refused(ValueError, "Invalid source rank: source rank should not be the same"):
            dist.recv_object_list([None], self.rank)
        self.check_group_works()

    def test_recv_object_list_needs_a_source(self):
        # Its documentation says "from any process if unspecified"; recv does that, this one asks for a rank.
        with self.refused(ValueError, "Must specify global_rank or group_rank"):
            dist.recv_object_list([None])

    def test_outsiders_are_warned_and_keep_what_they_have(self):
        group = dist.new_group([0], backend=self.backend)
        calls = {
            "all_gather_object": lambda kept: dist.all_gather_object(kept, 1, group=group),
            "gather_object": lambda kept: dist.gather_object(1, kept, 0, group=group),
            "broadcast_object_list": lambda kept: dist.broadcast_object_list(kept, 0, group=group),
            "scatter_object_list": lambda kept: dist.scatter_object_list(kept, [1], 0, group=group),
        }
        for name, call in calls.items():
            with self.subTest(call=name):
                kept = ["kept"]
                if self.rank == 0:
                    call(kept)
                    self.assertEqual(kept, ["kept" if name == "broadcast_object_list" else 1])
                    continue
                with self.warned_as_outsider(name):
                    self.assertIsNone(call(kept))
                self.assertEqual(kept, ["kept"])


instantiate_world_sizes(globals(), ObjectCollectives)
instantiate_world_sizes(globals(), SubGroupObjectCollectives, sizes=(3, 4))
instantiate_world_sizes(globals(), ObjectRefusals, sizes=(2, 3))


if __name__ == "__main__":
    run_tests()
