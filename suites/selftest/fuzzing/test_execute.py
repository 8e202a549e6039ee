"""Tests how a rank runs a program: it makes every kind of call, and reports each wrong tensor."""

from __future__ import annotations

import unittest
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist

from harness.fuzzing import GLOO, CollectiveStep, Regroup, Straggler
from harness.fuzzing.execute import as_tensor, expired, same
from harness.fuzzing.program import GAPPED, MANAGED, OBJECTS
from harness.fuzzing.schedule import EXPIRES_S
from suites.selftest.fuzzing.one_rank import ALONE, CPU, OneRankCase


class OnOneRank(OneRankCase):
    """Programs on a process group of one rank."""

    def test_every_collective_in_both_ways(self) -> None:
        for kind in GLOO.kinds:
            for delay in (None,) if kind in OBJECTS else (None, 1):
                with self.subTest(kind, delay=delay):
                    own = CollectiveStep(kind, ALONE, delay=delay)
                    views = replace(own, views=kind not in OBJECTS)
                    self.run_steps(own, Straggler(0), views, replace(views, gaps=kind in GAPPED))
        self.run_steps(CollectiveStep("all_to_all_single", ALONE, uneven=True))

    def test_managed_calls(self) -> None:
        """Several calls are one for the backend, and their handle is waited for; views with gaps too."""
        asked: list[int] = []
        real = dist.ProcessGroup.allreduce_coalesced

        def noted(group: Any, tensors: list[torch.Tensor], *options: Any) -> Any:
            asked.append(len(tensors))
            return real(group, tensors, *options)

        with mock.patch.object(dist.ProcessGroup, "allreduce_coalesced", noted):
            self.run_steps(CollectiveStep("all_reduce", ALONE, managed=True))
        self.assertEqual(asked, [2])
        for kind in MANAGED:
            for delay in (None, 1):
                own = CollectiveStep(kind, ALONE, shape=(2, 1), delay=delay, managed=True)
                views = replace(own, views=True)
                with self.subTest(kind, delay=delay):
                    self.run_steps(own, Straggler(0), views, replace(views, gaps=True))

    def test_what_is_taken_up(self) -> None:
        first, second = (CollectiveStep("broadcast", ALONE, takes=takes) for takes in (None, 0))
        self.run_steps(first, second)

    def test_groups_are_made_and_destroyed(self) -> None:
        """Each is another group, on which the next call is made; none that was made is left."""
        used, known, real = [], dist.distributed_c10d._world.pg_map, dist.broadcast
        before = len(known)

        def noted(*arguments: Any, group: Any, **options: Any) -> Any:
            used.append((group, len(known)))
            return real(*arguments, group=group, **options)

        own = CollectiveStep("broadcast", ALONE)
        with mock.patch.object(dist, "broadcast", noted):
            self.run_steps(own, Regroup(ALONE), own, Regroup(ALONE), own)
        self.assertEqual([count for _, count in used], [before, before + 1, before + 1])
        self.assertEqual(len({id(group) for group, _ in used}), 3)
        self.assertEqual(len(known), before)

    def test_a_wrong_result_is_told(self) -> None:
        def doubled(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
            tensor.mul_(2)

        with (
            mock.patch.object(dist, "broadcast", doubled),
            self.assertRaises(AssertionError) as caught,
        ):
            self.run_steps(CollectiveStep("barrier", ALONE), CollectiveStep("broadcast", ALONE))
        self.assertEqual(
            str(caught.exception),
            "rank 0 has got of step 1 (tensor 0), CollectiveStep(kind='broadcast', group=(0,)):\n"
            "  tensor([ 8., 10.])\n  for\n  tensor([4., 5.])",
        )

    def test_an_input_that_was_written_is_told(self) -> None:
        def spoiled(outputs: list[torch.Tensor], tensor: torch.Tensor, **kwargs: Any) -> None:
            outputs[0].copy_(tensor)
            tensor.zero_()

        with (
            mock.patch.object(dist, "all_gather", spoiled),
            self.assertRaisesRegex(AssertionError, r"rank 0 has in its input of step 0 \(tensor 0\)"),
        ):
            self.run_steps(CollectiveStep("all_gather", ALONE))

    def test_what_was_written_beside_a_tensor_is_told(self) -> None:
        """Where it is cut from a larger buffer: before it or behind it."""
        for place in (-1, 2):

            def beside(tensor: torch.Tensor, *args: Any, place: int = place, **kwargs: Any) -> None:
                tensor.as_strided((1,), (1,), tensor.storage_offset() + place).fill_(7)

            step = CollectiveStep("broadcast", ALONE, views=True)
            with (
                self.subTest(place=place),
                mock.patch.object(dist, "broadcast", beside),
                self.assertRaisesRegex(
                    AssertionError, "rank 0 has other values around the tensors of step 0"
                ),
            ):
                self.run_steps(step)

    def test_what_was_written_between_elements_is_told(self) -> None:
        """Where a tensor has gaps, by what takes it for the memory that lies beneath."""

        def beneath(outputs: list[torch.Tensor], tensor: torch.Tensor, **kwargs: Any) -> None:
            self.assertFalse(tensor.is_contiguous() or outputs[0].is_contiguous())
            outputs[0].copy_(tensor)
            outputs[0].as_strided((2,), (1,)).fill_(7)

        step = CollectiveStep("all_gather", ALONE, views=True, gaps=True)
        with (
            mock.patch.object(dist, "all_gather", beneath),
            self.assertRaisesRegex(AssertionError, "other values around the tensors of step 0"),
        ):
            self.run_steps(step)

    def test_what_comes_after_the_wait_is_too_late(self) -> None:
        tensors: list[torch.Tensor] = []

        def start(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> mock.Mock:
            tensors.append(tensor)
            tensor.neg_()
            return mock.Mock(wait=lambda: None)

        def arrive(**kwargs: Any) -> None:
            tensors[0].neg_()

        with (
            mock.patch.multiple(dist, broadcast=start, barrier=arrive),
            self.assertRaisesRegex(AssertionError, "of step 0"),
        ):
            self.run_steps(CollectiveStep("broadcast", ALONE, delay=0), CollectiveStep("barrier", ALONE))


class Expiring(unittest.TestCase):
    """The function ``expired``."""

    def test_waits(self) -> None:
        for raised, told in ((None, False), (RuntimeError("Operation timed out!"), True)):
            work = mock.Mock()
            work.wait.side_effect = raised
            self.assertEqual(expired(work), told)
            work.wait.assert_called_once_with(timedelta(seconds=EXPIRES_S))
        work.wait.side_effect = RuntimeError("Connection closed by peer")
        with self.assertRaisesRegex(RuntimeError, "closed"):
            expired(work)


class Comparing(unittest.TestCase):
    """The functions ``same`` and ``as_tensor``."""

    def test_exactly_and_nearly(self) -> None:
        one = torch.tensor([1.0, float("inf")])
        near = torch.tensor([1.000001, float("inf")])
        self.assertTrue(same(one, near, 1e-5))
        self.assertFalse(same(one, near, 1e-7))
        self.assertFalse(same(one, near, 0))
        self.assertTrue(same(one, one.clone(), 0))

    def test_shape_and_dtype_count(self) -> None:
        one = torch.ones(2)
        self.assertFalse(same(one, torch.ones(2, 1), 0))
        self.assertFalse(same(one, torch.ones(2, dtype=torch.float64), 1e-5))

    def test_arrays_of_every_kind(self) -> None:
        for dtype in ("bfloat16", "float16", "bool", "complex128", "uint8"):
            tensor = as_tensor(np.ones((2, 1)), dtype, CPU)
            self.assertEqual((tensor.dtype, tensor.shape), (getattr(torch, dtype), (2, 1)))
        self.assertEqual(as_tensor(np.float64(3).reshape(()), "float64", CPU).shape, ())


if __name__ == "__main__":
    unittest.main()
