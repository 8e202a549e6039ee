"""Tests the base classes of distributed compiler tests: what they set up on this machine and leave behind."""

from __future__ import annotations

import os
import unittest
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

import torch
import torch._dynamo
import torch.distributed as dist
from torch._dynamo import config
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from harness import Status, UsageError, requires_world_size
from harness.cases import defaults, dynamo
from harness.cases.dynamo import (
    INDUCTOR_VARIABLE,
    DynamoDistributedMultiProcTestCase,
    DynamoDistributedSingleProcTestCase,
    _dynamo_dist_per_rank_init,
    clean_compiler,
)
from harness.requirements import MachineFacts
from suites.selftest.cases import dynamo_bodies as bodies
from suites.selftest.cases.recording_channel import RecordingChannel


def run(*cases: unittest.TestCase) -> unittest.TestResult:
    """Runs the cases as a suite in this process, with the fixtures of their classes."""
    result = unittest.TestResult()
    with mock.patch.dict(os.environ, {"HARNESS_GRACE": "0.2"}):
        unittest.TestSuite(cases).run(result)
    return result


def said(result: unittest.TestResult) -> str:
    """Returns all that unittest would print."""
    return "\n".join(text for _, text in (*result.failures, *result.errors))


class CleanCompilerTest(unittest.TestCase):
    """``clean_compiler``, a region that leaves the compiler as it was."""

    def test_settings(self) -> None:
        """Changed settings are restored, also after an exception, and the others are never set."""
        before = (config.optimize_ddp, config.cache_size_limit, config.specialize_int)
        torch._dynamo.config.optimize_ddp = before[0]
        with self.assertRaises(ZeroDivisionError), clean_compiler():
            config.optimize_ddp = not before[0]
            config.cache_size_limit = before[1] + 1
            raise ZeroDivisionError
        self.assertEqual((config.optimize_ddp, config.cache_size_limit, config.specialize_int), before)

    def test_compiled_code_and_counters(self) -> None:
        """Compiled code and counters are empty at the start of a region and after it."""
        compiled: list[Any] = []

        def backend(graph: Any, inputs: Any) -> Any:
            compiled.append(graph)
            return graph

        double = torch.compile(lambda x: x * 2, backend=backend)
        for _ in range(2):
            with clean_compiler():
                self.assertEqual(dict(counters), {})
                double(torch.ones(2))
                self.assertEqual(counters["stats"]["unique_graphs"], 1)
        self.assertEqual((len(compiled), dict(counters)), (2, {}))

    def test_environment(self) -> None:
        """The variable that inductor sets is removed, and no other one is."""
        with mock.patch.dict(os.environ):
            with clean_compiler():
                os.environ[INDUCTOR_VARIABLE] = "140000000000000"
                os.environ["OWN_VARIABLE"] = "kept"
            self.assertNotIn(INDUCTOR_VARIABLE, os.environ)
            self.assertEqual(os.environ["OWN_VARIABLE"], "kept")

    def test_grad_mode(self) -> None:
        """The grad mode is restored."""
        with clean_compiler():
            torch.set_grad_enabled(False)
        self.assertTrue(torch.is_grad_enabled())


class SingleTest(DynamoDistributedSingleProcTestCase):
    """A process group of one rank, on the machine's device."""

    first_settings: ClassVar[tuple[bool, bool]] = (config.suppress_errors, config.optimize_ddp)

    def test_group(self) -> None:
        """The process is rank 0 of one with the device's backend, and the store uses no port."""
        self.assertEqual((dist.get_rank(), dist.get_world_size(), self.rank), (0, 1, 0))
        kind, _ = defaults.accelerator()
        self.assertEqual(dist.get_backend(), defaults.backend_for(kind))
        self.assertEqual(torch.device(self.device).type, kind)
        self.assertIsNone(self.device_ids)
        self.assertIsInstance(dist.distributed_c10d._get_default_store(), dist.PrefixStore)

    def test_compiles_ddp(self) -> None:
        """A model in two buckets compiles to two graphs and computes the same as uncompiled."""
        model = bodies.two_layers(self.device)
        wrapped = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=self.device_ids, bucket_cap_mb=bodies.BUCKET_MB
        )
        counter = bodies.CountedGraphs()
        compiled = torch.compile(wrapped, backend=counter)
        x = torch.ones(2, bodies.WIDTH, device=self.device)
        self.assertEqual(compiled(x), model(x))
        self.assertEqual(len(counter.graphs), 2)

    def test_changes_settings(self) -> None:
        """Settings that this test changes are not seen by the next test, whichever it is."""
        self.assertTrue(config.optimize_ddp)
        self.assertEqual(dict(counters), {})
        config.optimize_ddp = False
        counters["stats"]["unique_graphs"] = 3
        torch.set_grad_enabled(False)

    def test_changes_settings_too(self) -> None:
        """The same test again, so that each of the two runs after the other or before it."""
        self.test_changes_settings()


class SingleFixturesTest(unittest.TestCase):
    """What is left after a class has run."""

    def test_nothing_is_left(self) -> None:
        """The methods pass in one class, and no group and no setting is left."""
        before = config.suppress_errors, config.raise_on_ctx_manager_usage, os.environ.get("MASTER_PORT")
        self.assertFalse(dist.is_initialized())
        names = unittest.TestLoader().getTestCaseNames(SingleTest)
        result = run(*map(SingleTest, names))
        self.assertEqual((said(result), result.testsRun), ("", len(names)))
        self.assertFalse(dist.is_initialized())
        after = config.suppress_errors, config.raise_on_ctx_manager_usage, os.environ.get("MASTER_PORT")
        self.assertEqual(after, before)

    def test_class_whose_set_up_fails(self) -> None:
        """A class whose setUpClass fails leaves no group."""
        result = run(bodies.SetUpClassFails("test_anything"))
        self.assertIn("no such model", said(result))
        self.assertFalse(dist.is_initialized())

    def test_class_that_forgets_its_base(self) -> None:
        """A class that overrides ``tearDownClass`` without its base leaves no group."""
        result = run(bodies.ForgetsItsBase("test_anything"))
        self.assertEqual(said(result), "")
        self.assertFalse(dist.is_initialized())

    def test_ranks_after_a_group_in_this_process(self) -> None:
        """Ranks can start while the parent has gloo's threads, with its group alive and after it."""
        result = run(
            SingleTest("test_group"), bodies.PlainRanks("test_sum"), bodies.RanksBeside("test_ranks")
        )
        self.assertEqual((said(result), result.testsRun), ("", 3))


class MultiTest(DynamoDistributedMultiProcTestCase):
    """Rank processes with a group and a clean compiler in each."""

    def test_compiles_ddp(self) -> None:
        """The compiled model is split in two graphs, and its gradients are the mean over the ranks."""
        with _dynamo_dist_per_rank_init(self.rank, self.world_size):
            self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, self.world_size))
            self.assertEqual(dist.get_backend(), defaults.backend_for(self.device_type))
            torch.manual_seed(0)
            model = bodies.two_layers(self.device_type)
            wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bodies.BUCKET_MB)
            counter = bodies.CountedGraphs()
            inputs = torch.full((2, bodies.WIDTH), float(self.rank + 1), device=self.device_type)
            torch.compile(wrapped, backend=counter)(inputs).sum().backward()
            self.assertEqual(len(counter.graphs), 2)
            alone = bodies.mean_gradient(model, self.world_size)
            self.assertEqual(model[0].weight.grad, alone)

    def test_one_after_the_other(self) -> None:
        """Each of several groups in one test starts with a clean compiler and is gone afterwards."""
        for number in range(3):
            with _dynamo_dist_per_rank_init(self.rank, self.world_size):
                self.assertTrue(config.optimize_ddp)
                self.assertEqual(dict(counters), {})
                total = torch.full((1,), float(number), device=self.device_type)
                dist.all_reduce(total)
                self.assertEqual(total.item(), number * self.world_size)
                config.optimize_ddp = False
                counters["stats"]["unique_graphs"] = 3
            self.assertFalse(dist.is_initialized())
        self.assertTrue(config.optimize_ddp)

    def test_shards(self) -> None:
        """A mesh can be used in a test although DTensor's caches keep it beyond its group."""
        with _dynamo_dist_per_rank_init(self.rank, self.world_size):
            mesh = init_device_mesh(self.device_type, (self.world_size,))
            whole = torch.arange(4.0, device=self.device_type)
            rows = distribute_tensor(whole, mesh, [Shard(0)])
            self.assertEqual((rows * 2).redistribute(mesh, [Replicate()]).to_local(), whole * 2)

    def test_fake_group(self) -> None:
        """A fake group has no peers and waits for none."""
        with _dynamo_dist_per_rank_init(self.rank, self.world_size, fake_pg=True):
            self.assertEqual((dist.get_backend(), dist.get_rank()), ("fake", self.rank))
            if self.rank == 0:
                dist.barrier()

    def test_without_a_group(self) -> None:
        """With init_pg=False there is a clean compiler and no group."""
        with _dynamo_dist_per_rank_init(self.rank, self.world_size, init_pg=False):
            self.assertFalse(dist.is_initialized())

    @requires_world_size(3)
    def test_three_ranks(self) -> None:
        """The world size that a test requires goes before the machine's."""
        self.assertEqual(self.world_size, 3)


class MultiOnPooledRanksTest(MultiTest):
    """The same tests on pooled ranks."""

    rank_modes = ("pooled",)


# Tests that would leave something: DDP's modules form reference cycles with their group, and caches hold
# meshes.
KEPT = ("test_compiles_ddp", "test_shards", "test_one_after_the_other")


class KeptRanksTest(unittest.TestCase):
    """Pooled ranks are kept from one compiled test to the next."""

    def test_kept(self) -> None:
        """The leak guard finds no group, thread or setting that a compiled test left."""
        cases = [MultiOnPooledRanksTest(name) for name in KEPT]
        self.assertEqual(said(run(*cases)), "")
        outcomes = [case._harness_outcome for case in cases]
        self.assertEqual([o.warnings for o in outcomes if o is not None], [()] * len(KEPT))
        self.assertEqual(len({tuple(r.pid for r in o.ranks) for o in outcomes if o is not None}), 1)


class EndedGroupsTest(unittest.TestCase):
    """The groups that a test has ended, in the process of a rank."""

    def collections(self, *, goes_on: bool) -> list[bool]:
        """Runs a test as rank 0; returns for each garbage collection whether the test's group existed."""
        channel, seen = RecordingChannel(), []
        channel.goes_on = goes_on
        bodies.KeepsSight.group = None
        watched = SimpleNamespace(collect=lambda: seen.append(bodies.KeepsSight.exists()))
        with mock.patch.object(dynamo, "gc", watched):
            bodies.KeepsSight._run(0, "test_group", "", channel)
        assert channel.result is not None
        self.assertEqual(channel.result.status, Status.PASSED, channel.result.error)
        return seen

    def test_outlive_the_collection(self) -> None:
        """A group is destroyed after the collection of what refers to it, as torch's own Python object."""
        seen = self.collections(goes_on=True)
        self.assertEqual(seen, [True])
        self.assertFalse(bodies.KeepsSight.exists())

    def test_no_collection(self) -> None:
        """A rank that ends with its test collects nothing: its end frees everything."""
        self.assertEqual(self.collections(goes_on=False), [])


class MultiEndsTest(unittest.TestCase):
    """Verdicts of ranks that fail."""

    def test_one_rank_raises(self) -> None:
        """A rank that raises is the root cause, and the verdict shows where its peer waits."""
        case = bodies.OneRankRaises("test_it")
        text = said(run(case))
        outcome = case._harness_outcome
        assert outcome is not None
        self.assertEqual(outcome.root_cause, 1, text)
        self.assertIn("rank 1's own error", text)
        self.assertIn("rank 0 waits in all_reduce", text)

    def test_no_way_to_find_each_other(self) -> None:
        """Without a rendezvous address the error says what to do."""
        with (
            mock.patch.dict(os.environ),
            self.assertRaisesRegex(UsageError, "derive the test from DynamoDistributedMultiProcTestCase"),
        ):
            os.environ.pop("MASTER_ADDR", None)
            with _dynamo_dist_per_rank_init(0, 2):
                self.fail("there was a group")
        self.assertFalse(dist.is_initialized())

    def test_world_size(self) -> None:
        """There is one rank for each device, and two ranks on a machine without devices."""
        none = ((), defaults.FEWEST_RANKS)
        for accelerators, ranks in (none, ((("cuda", 1),), 1), ((("cuda", 8),), 8)):
            facts = MachineFacts(accelerators=accelerators)
            with self.subTest(accelerators), mock.patch.object(defaults, "probe", lambda facts=facts: facts):
                self.assertEqual(MultiTest("test_fake_group").world_size, ranks)


if __name__ == "__main__":
    unittest.main()
