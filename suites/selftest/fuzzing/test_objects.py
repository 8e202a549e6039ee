"""Tests the calls that exchange objects: what comes back is the tensor whose numbers were sent."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from harness.fuzzing import CollectiveStep, Message
from harness.fuzzing.objects import exchanged, received, sent
from harness.fuzzing.program import OBJECTS
from suites.selftest.fuzzing.one_rank import ALONE, OneRankCase


class Exchanging(OneRankCase):
    """Object collectives in a group of one rank, and messages of objects on a stand-in for the wire."""

    def test_all_shapes_and_dtypes(self) -> None:
        """They come back with the shape and the dtype of the tensor whose numbers they have."""
        steps = [
            CollectiveStep(kind, ALONE, dtype, shape)
            for kind in OBJECTS
            for dtype in ("bfloat16", "bool", "complex64")
            for shape in ((), (0, 3), (2, 2))
        ]
        self.run_steps(*steps)
        own = CollectiveStep("all_gather_object", ALONE)
        self.run_steps(own, CollectiveStep("all_reduce", ALONE, shape=(1, 2), takes=0))
        given = torch.tensor([[1, 0, 5]], dtype=torch.int8)
        (got,) = exchanged(CollectiveStep("all_gather_object", ALONE, "int8"), 0, [given], dist.group.WORLD)
        self.assertEqual((got.dtype, got.tolist()), (torch.int8, [[1, 0, 5]]))

    def test_a_wrong_object_is_told(self) -> None:
        def lost(outputs: list[Any], given: Any, **kwargs: Any) -> None:
            outputs[0] = (given[0], [0.0] * len(given[1]))

        with (
            mock.patch.object(dist, "all_gather_object", lost),
            self.assertRaisesRegex(AssertionError, r"has got of step 0 \(tensor 0\)"),
        ):
            self.run_steps(CollectiveStep("all_gather_object", ALONE))

    def test_messages(self) -> None:
        wire: list[Any] = []

        def send(objects: list[Any], target: int, group: Any) -> None:
            wire.extend([target, group, *objects])

        def receive(objects: list[Any], source: int, group: Any) -> None:
            self.assertEqual((source, group), (2, "group"))
            objects[:] = wire[2:]

        step = Message(2, 5, (2, 5), dtype="bool", objects=True)
        given = [torch.tensor([True, False]), torch.zeros(0, 3, dtype=torch.bool)]
        with mock.patch.multiple(dist, send_object_list=send, recv_object_list=receive):
            sent(step, given, "group")
            self.assertEqual(wire[:2], [5, "group"])
            got = received(step, "group")
        self.assertTrue(all(torch.equal(one, other) for one, other in zip(got, given, strict=True)))


if __name__ == "__main__":
    unittest.main()
