"""The same DTensor tests in every rank mode, and what their bases do when something goes wrong."""

from __future__ import annotations

import os
import unittest
from collections.abc import Iterable
from typing import Any
from unittest import mock

import torch
from torch.distributed.tensor import Replicate, Shard, init_device_mesh

from harness import Status, TestOutcome, UsageError
from harness.cases import devices
from harness.cases.dtensor import (
    NUM_DEVICES,
    DTensorContinuousTestBase,
    DTensorConverter,
    DTensorOpTestBase,
    DTensorTestBase,
    LocalDTensorContinuousTestBase,
    LocalDTensorOpTestBase,
    LocalDTensorTestBase,
    create_local_tensor_test_class,
    skip_unless_torch_gpu,
)
from harness.cases.local_ranks import reduce_local_int
from harness.launch import local
from harness.requirements import MachineFacts, Occasion, requirements_of, requires_world_size
from suites.selftest.cases import dtensor_bodies as bodies


class OnFreshRanks(bodies.Bodies, DTensorTestBase):
    """Processes of the test's own."""


class OnPooledRanks(bodies.Bodies, DTensorTestBase):
    """Processes that are kept, with a process group for each test."""

    rank_modes = ("pooled",)


class OnOneGroup(bodies.Bodies, DTensorContinuousTestBase):
    """Processes and process group are kept."""


class OnThreads(bodies.Bodies, DTensorOpTestBase):
    """Threads of this process, on torch's threaded group."""


class OnThreadsWithGloo(bodies.Bodies, DTensorTestBase):
    """Threads of this process, on gloo."""

    rank_modes = ("threads",)


class OnLocalTensors(bodies.Bodies, LocalDTensorTestBase):
    """One process that plays all ranks."""


class OnLocalTensorsWithOneGroup(bodies.Bodies, LocalDTensorContinuousTestBase):
    """The same, and the group is kept."""


class OnLocalTensorsWithAGroup(bodies.Bodies, LocalDTensorOpTestBase):
    """The same, with a group for each test that is there before the test."""


OnFreshRanksWithLocalTensor = create_local_tensor_test_class(OnFreshRanks, ["test_drawn_shapes"])


def play(case: Any, method: str, **environ: str) -> tuple[unittest.TestResult, TestOutcome]:
    """One test in this process: what unittest has of it, and the harness's own account."""
    test, result = case(method), unittest.TestResult()
    with mock.patch.dict(os.environ, {"HARNESS_GRACE": "0.2", **environ}):
        test.run(result)
    outcome = test._harness_outcome
    assert outcome is not None, result
    return result, outcome


def said(result: unittest.TestResult) -> str:
    """All that unittest would print."""
    return "\n".join(text for _, text in (*result.failures, *result.errors, *result.skipped))


class KeptRanksTest(unittest.TestCase):
    """Pooled ranks are kept from one DTensor test to the next: nothing of its meshes is left."""

    def test_kept(self) -> None:
        """The same processes run meshes of one and two dimensions, operators and random numbers."""
        methods = (
            "test_mesh_of_two_dimensions",
            "test_matmul",
            "test_random_numbers_of_a_rank",
            "test_partial",
        )
        for case in (OnPooledRanks, OnOneGroup, OnLocalTensors, OnLocalTensorsWithOneGroup):
            with self.subTest(case.__name__):
                outcomes = [play(case, method)[1] for method in methods]
                self.assertEqual([o.warnings for o in outcomes], [()] * len(methods))
                self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes}), 1)


class WithCommsTest(unittest.TestCase):
    """The group is gone whatever happens, and the first error is the one that is seen."""

    def check_groups_gone(self, outcome: TestOutcome) -> None:
        self.assertEqual([o.output for o in outcome.ranks], ["group left: False\n"] * len(outcome.ranks))

    def test_body_raises(self) -> None:
        """Its own error, on every rank."""
        result, outcome = play(bodies.Faulty, "test_body_raises")
        self.assertEqual(len(result.errors), 1)
        self.assertIn("ValueError: the body's own error", said(result))
        self.assertIn("ranks 0-3", said(result))
        self.check_groups_gone(outcome)

    def test_one_rank_raises(self) -> None:
        """It is the root cause: no peer hears of it before the supervisor does, however slow the rank is."""
        result, outcome = play(bodies.Faulty, "test_one_rank_raises")
        self.assertEqual(outcome.root_cause, 2, said(result))
        self.assertIn("ValueError: rank 2's own error", said(result))
        self.assertIn("all_reduce #1 of group 0", said(result))
        self.assertNotIn("closed by peer", said(result))

    def test_unknown_backend(self) -> None:
        """An error that lists those there are, before any group is made."""
        result, outcome = play(bodies.Faulty, "test_unknown_backend")
        self.assertIn("UsageError: torch knows no process group backend 'pigeon'; it knows", said(result))
        self.assertIn("gloo", said(result))
        self.check_groups_gone(outcome)

    @unittest.skipIf(torch.distributed.is_mpi_available(), "this build has MPI")
    def test_backend_that_this_build_lacks(self) -> None:
        """A skip with the reason."""
        result, outcome = play(bodies.Faulty, "test_backend_that_this_build_lacks")
        self.assertEqual(
            [reason for _, reason in result.skipped], ["this build of torch has no backend 'mpi'"]
        )
        self.check_groups_gone(outcome)

    def test_skip(self) -> None:
        """A skip."""
        result, outcome = play(bodies.Faulty, "test_skips")
        self.assertEqual([reason for _, reason in result.skipped], ["not today"])
        self.check_groups_gone(outcome)

    def test_ends_that_pass(self) -> None:
        """A body may destroy its group, and may go on after one that failed."""
        for method in ("test_destroys_the_group_itself", "test_catches_what_the_body_raised"):
            with self.subTest(method):
                result, outcome = play(bodies.Faulty, method)
                self.assertEqual(said(result), "")
                self.check_groups_gone(outcome)

    def test_without_init_pg(self) -> None:
        """The method runs as it is."""
        test = OnThreads("test_matmul")
        self.assertFalse(hasattr(test, "init_pg"))
        self.assertFalse(hasattr(OnOneGroup("test_matmul"), "init_pg"))


class OperatorTest(unittest.TestCase):
    """``_test_op`` sees what is wrong."""

    def test_operator_differs(self) -> None:
        """A failure that names the placements."""
        result, _ = play(bodies.Faulty, "test_operator_differs", HARNESS_RANKS="local")
        self.assertIn("Mismatched elements", said(result))
        self.assertIn("with (Replicate(),)", said(result))

    def test_operator_without_tensors(self) -> None:
        """Nothing tested is a failure."""
        result, _ = play(bodies.Faulty, "test_operator_without_tensors", HARNESS_RANKS="local")
        self.assertIn("none is a tensor", said(result))


class LocalTest(unittest.TestCase):
    """A process that plays all ranks is judged as ranks are."""

    def test_fails_on_two_ranks(self) -> None:
        """A failure of the test, with what it found."""
        result, outcome = play(bodies.FaultyLocal, "test_fails_on_two_ranks")
        self.assertEqual(len(result.failures), 1, said(result))
        self.assertEqual([o.rank for o in outcome.ranks], [0, 1, 2, 3])
        self.assertIn("on rank 1 of the 4 that are simulated", said(result))

    def test_dies(self) -> None:
        """A crash, with the exit code."""
        result, _ = play(bodies.FaultyLocal, "test_dies")
        self.assertIn("exit code 3", said(result))

    def test_hangs(self) -> None:
        """Timed out, with the line that it stood on."""
        result, outcome = play(bodies.FaultyLocal, "test_hangs", HARNESS_TIMEOUT="2")
        self.assertIn("timed out", said(result))
        self.assertIn("in test_hangs", said(result))
        self.assertEqual([o.status for o in outcome.ranks], [Status.TIMED_OUT] * 4)

    def test_pollution(self) -> None:
        """A test that fails for what another left is told from one that fails anyway."""
        play(bodies.FaultyLocal, "test_leaves_its_mark")
        result, _ = play(bodies.FaultyLocal, "test_finds_no_mark")
        self.assertIn("left by test_leaves_its_mark", said(result))
        self.assertIn(local.POLLUTED, said(result))
        play(bodies.FaultyLocal, "test_leaves_its_mark")
        result, _ = play(bodies.FaultyLocal, "test_always_fails")
        self.assertIn("whatever ran before", said(result))
        self.assertNotIn(local.POLLUTED, said(result))

    def test_rank_of_many(self) -> None:
        """One integer that is all ranks."""
        rank = local.rank_of(4)
        self.assertTrue(local.is_simulated(rank))
        self.assertFalse(local.is_simulated(2))
        self.assertEqual(reduce_local_int(rank + 1, lambda values: values), {0: 1, 1: 2, 2: 3, 3: 4})

    def test_class_made_of_another(self) -> None:
        """Its name, mode and skips; a class that cannot be is refused."""
        made = OnFreshRanksWithLocalTensor
        self.assertEqual((made.__name__, made.rank_modes), ("OnFreshRanksWithLocalTensor", ("local",)))
        result = unittest.TestResult()
        made("test_drawn_shapes").run(result)
        self.assertEqual([reason for _, reason in result.skipped], ["not on local tensors"])
        with self.assertRaisesRegex(UsageError, "derive it from DTensorTestBase"):
            create_local_tensor_test_class(OnThreads)


class ConverterTest(unittest.TestCase):
    """Which shardings there are, on a mesh of four that has no peers."""

    def setUp(self) -> None:
        local.init_group(4)
        self.addCleanup(torch.distributed.destroy_process_group)
        self.mesh = init_device_mesh("cpu", (4,))

    def placements(self, *args: Any, **kwargs: Any) -> list[tuple[Any, ...]]:
        """The placements of every step."""
        steps: Iterable[Any] = DTensorConverter(self.mesh, args, kwargs)
        return [tuple(t.placements[0] for t in (*a, *k.values())) for a, k in steps]

    def test_choices(self) -> None:
        """Replicated, and sharded where four divides; booleans and numbers are replicated."""
        table: tuple[tuple[torch.Tensor, list[Any]], ...] = (
            (torch.ones(8, 6), [Replicate(), Shard(0)]),
            (torch.ones(4, 8), [Replicate(), Shard(0), Shard(1)]),
            (torch.ones(3, 1), [Replicate()]),
            (torch.ones(8, dtype=torch.bool), [Replicate()]),
            (torch.tensor(1.0), [Replicate()]),
        )
        for tensor, choices in table:
            with self.subTest(shape=tensor.shape, dtype=tensor.dtype):
                self.assertEqual(self.placements(tensor), [(c,) for c in choices])

    def test_combinations(self) -> None:
        """Every one, the last tensor's choices fastest; keywords come last."""
        r, s = Replicate(), Shard(0)
        found = self.placements(torch.ones(4), other=torch.ones(8))
        self.assertEqual(found, [(r, r), (r, s), (s, r), (s, s)])

    def test_replicate_only(self) -> None:
        """One step."""
        steps = DTensorConverter(self.mesh, (torch.ones(4),), {}, replicate_only=True)
        self.assertEqual(len(list(steps)), 1)
        self.assertTrue(steps.successful())

    def test_structure_and_other_arguments_stay(self) -> None:
        """Lists stay lists, what is no tensor stays what it is, a parameter stays one."""
        weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        steps = DTensorConverter(self.mesh, ([weight, 5],), {"mode": "sum"})
        ((args, kwargs),) = steps
        self.assertIsInstance(args[0], list)
        self.assertIsInstance(args[0][0], torch.nn.Parameter)  # type: ignore[index]  # a list, by the line above
        self.assertFalse(args[0][0].requires_grad)  # type: ignore[index]  # likewise
        self.assertEqual((args[0][1], kwargs), (5, {"mode": "sum"}))  # type: ignore[index]  # likewise

    def test_what_cannot_be_distributed(self) -> None:
        """Stays as it is, and is counted; what is no tensor is refused."""
        for tensor in (torch.ones(4).to_sparse(), torch.ones(4, device="meta")):
            with self.subTest(tensor=tensor):
                steps = DTensorConverter(self.mesh, (tensor, torch.ones(3)), {})
                args, _ = next(steps)
                self.assertIs(args[0], tensor)
                self.assertEqual((steps.hit, steps.miss, steps.successful()), (1, 1, False))
        with self.assertRaisesRegex(UsageError, "only a tensor can be distributed, not str"):
            DTensorConverter(self.mesh, (), {}).to_dist_tensor("x", self.mesh, [Replicate()])


class MachineTest(unittest.TestCase):
    """World size, device and backend follow from what the machine has."""

    def on(self, **facts: Any) -> Any:
        """Pretends that the machine is another."""
        return mock.patch.object(devices, "probe", lambda: MachineFacts(**facts))

    def test_table(self) -> None:
        """As upstream's ``common_dtensor`` has them."""
        table = (
            ((), False, 4, "cpu", "cpu"),
            ((("mps", 1),), False, 4, "cpu", "cpu"),
            ((("cuda", 1),), False, 4, "cpu", "cuda"),
            ((("cuda", 2),), False, 2, "cuda", "cuda"),
            ((("cuda", 3),), False, 3, "cuda", "cuda"),
            ((("cuda", 8),), False, 4, "cuda", "cuda"),
            ((("cuda", 1),), True, 2, "cpu", "cuda"),
            ((("xpu", 8),), False, 4, "xpu", "xpu"),
        )
        for accelerators, rocm, ranks, kind, first in table:
            with (
                self.subTest(accelerators=accelerators, rocm=rocm),
                self.on(accelerators=accelerators, rocm=rocm),
            ):
                self.assertEqual(devices.num_devices(), ranks)
                self.assertEqual(devices.device_type_for(ranks), kind)
                self.assertEqual(devices.accelerator()[0], first)

    def test_backend(self) -> None:
        """torch's own choice."""
        self.assertEqual([devices.backend_for(d) for d in ("cpu", "cuda")], ["gloo", "nccl"])

    def test_world_size(self) -> None:
        """What the test requires, else the machine's."""
        self.assertEqual(bodies.Faulty("test_skips").world_size, NUM_DEVICES)

        class Demanding(DTensorTestBase):
            @requires_world_size(2)
            def test_two(self) -> None:
                """Not run."""

        self.assertEqual(Demanding("test_two").world_size, 2)

    def test_skip_unless_torch_gpu(self) -> None:
        """Nothing is probed at decoration; a machine with two devices has enough."""

        @skip_unless_torch_gpu
        def test_method(self: Any) -> None:
            """Not run."""

        owner = type("Case", (), {"test_method": test_method})
        (requirement,) = requirements_of(owner, "test_method").items
        for count, met in ((0, False), (1, False), (2, True), (8, True)):
            facts = MachineFacts(accelerators=(("cuda", count),) if count else ())
            self.assertEqual(requirement.unmet(facts, Occasion()) is None, met, count)


if __name__ == "__main__":
    unittest.main()
