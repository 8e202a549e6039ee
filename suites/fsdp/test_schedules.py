"""In which order FSDP works, in which streams, and what waits for what: as ``schedules.txt`` has it.

Numbers do not show it on a CPU, where everything happens at once. Each schedule there is that of one step in
full, or what an option changes in it. Where torch has another order, a failure shows the section as it would
have to be.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    BackwardPrefetch,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    share_comm_ctx,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import accepted_sections, as_section
from suites.fsdp.models import Block
from suites.fsdp.plain_copy import PlainCopyTestCase
from suites.fsdp.schedule import changes, scheduled

ACCEPTED = Path(__file__).with_name("schedules.txt")
BF16 = torch.bfloat16


@unittest.skipUnless(torch_at_least("2.13"), "the schedules are those of torch 2.13")
class SchedulesTest(PlainCopyTestCase):
    """Two ranks, which do the same; on the CPU, whose streams are looked at."""

    device_type = "cpu"

    def setUpRank(self):
        super().setUpRank()
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        self.sections = accepted_sections(ACCEPTED)
        region = scheduled()
        self.schedule = region.__enter__()
        self.addCleanup(region.__exit__, None, None, None)
        self.rows = self.batch.of(self.rank).inputs

    def check(self, name, model, usual=None):
        """Check what was scheduled since the last time; with ``usual`` what it changes in that section.

        Returns all of it.
        """
        owner = model if isinstance(model, FSDP) else model._get_fsdp_state()._comm_ctx
        found = whole = self.schedule.taken(owner)
        if usual is not None:
            found = changes(self.sections[usual] if isinstance(usual, str) else usual, found)
        with self.subTest(name):
            wanted = self.sections.get(name)
            self.assertEqual(found, wanted, as_section(name, found))
        return whole

    def evaluate(self, model):
        with torch.no_grad():
            model(self.rows)

    def check_steps(self, name, model):
        """Check what is not usual in a first step and in a later one; returns all of the later one."""
        kind = name.partition(" ")[0]
        for later in (", first", ""):
            self.backward(model)
            found = self.check(f"{name}{later}", model, f"{kind}{later}")
        return found

    def test_steps_of_fully_shard(self):
        model = self.made()
        self.backward(model)
        self.check("FSDP2, first", model)
        for _ in range(2):
            self.backward(model)
            self.check("FSDP2", model)
        model.set_requires_gradient_sync(False)
        self.backward(model)
        self.check("FSDP2 without synchronization", model, "FSDP2")
        model.set_requires_gradient_sync(True)
        self.backward(model)
        self.check("FSDP2", model)
        self.evaluate(model)
        self.check("FSDP2 without gradients", model)

    def test_options_of_fully_shard(self):
        pairs = {"mesh_dim_names": ("replicate", "shard")}
        replicated = init_device_mesh(self.device_type, (2, 1), **pairs)
        for name, options in (
            ("kept whole after the forward", {"reshard_after_forward": False}),
            ("of low precision", {"mp_policy": MixedPrecisionPolicy(BF16, reduce_dtype=torch.float32)}),
            ("reduced in low precision", {"mp_policy": MixedPrecisionPolicy(reduce_dtype=BF16)}),
            ("replicated", {"mesh": replicated}),
        ):
            model = self.made(**options)
            self.check_steps(f"FSDP2 {name}", model)
            if "mesh" in options:
                model.set_requires_all_reduce(False)
                self.backward(model)
                self.check(f"FSDP2 {name}, reduced in part", model, "FSDP2")
                model.set_requires_all_reduce(True)
                self.backward(model)
                self.check(f"FSDP2 {name}", model, "FSDP2")

    def test_settings_of_fully_shard(self):
        def prefetched(model):
            model.set_modules_to_forward_prefetch(list(model.blocks))
            model.set_modules_to_backward_prefetch(list(model.blocks))

        def whole(model):
            model.set_modules_to_forward_prefetch(list(model.blocks))
            model.blocks[1].set_reshard_after_forward(False)
            model.blocks[1].set_unshard_in_backward(False)

        for name, setting in (
            ("not for the last time", lambda model: model.set_is_last_backward(False)),
            ("kept whole after the backward", lambda model: model.set_reshard_after_backward(False)),
            ("one kept whole", lambda model: model.blocks[0].set_reshard_after_forward(False)),
            ("prefetched as told", prefetched),
            ("prefetched for the forward alone", whole),
            ("prefetched while it computes", lambda model: model._set_unshard_async_op(True)),
            ("with more buffers", lambda model: model.set_reduce_scatter_max_input_buffers(2)),
            ("after an optimizer", lambda m: m.set_post_optim_event(self.schedule.main.record_event())),
        ):
            model = self.made()
            setting(model)
            self.check_steps(f"FSDP2 {name}", model)

    def test_units_of_fully_shard(self):
        """One alone, whole when it is asked for; two models that share their streams."""
        model = self.made()
        self.backward(model)
        self.schedule.taken()
        model.unshard()
        self.check("FSDP2, the root whole", model)
        model.reshard()
        handle = model.blocks[0].unshard(async_op=True)
        self.check("FSDP2, a unit on its way", model)
        handle.wait()
        self.check("FSDP2, a unit whole", model)
        self.evaluate(model.blocks[0])
        self.check("FSDP2, a unit by itself", model)
        self.backward(model)
        self.check("FSDP2 after a unit by itself", model, "FSDP2")
        one, other = self.made(), self.made()
        share_comm_ctx([])
        share_comm_ctx([one, other])
        self.assertIs(*(each._get_fsdp_state()._comm_ctx for each in (one, other)))
        for each in (one, other):
            self.backward(each)
            self.check("FSDP2, first", one)

    def test_a_forward_that_raises(self):
        model = self.made()
        handle = model.blocks[1].register_forward_pre_hook(lambda *_: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            model(self.rows)
        handle.remove()
        self.schedule.taken()
        model.reset_iter_state()
        self.check("FSDP2 that has raised", model)
        for _ in range(2):
            self.backward(model)
            self.check("FSDP2", model)

    def test_steps_of_flat_parameters(self):
        model = self.fsdp1(self.plain, Block)
        self.backward(model)
        self.check("FSDP1, first", model)
        for _ in range(2):
            self.backward(model)
            self.check("FSDP1", model)
        self.check_without("FSDP1", model, "FSDP1")
        for name, options in (("of all", {}), ("of a unit", {"recurse": False, "writeback": False})):
            with FSDP.summon_full_params(model, **options):
                self.check(f"FSDP1 summoned {name}", model)
            self.check(f"FSDP1 summoned {name}, after", model)
        model.state_dict()
        self.check("FSDP1's state", model)
        model.clip_grad_norm_(1.0)
        self.check("FSDP1's norm", model)

    def check_without(self, name, model, usual):
        """Check a step without synchronization, and a call without gradients."""
        with model.no_sync():
            self.backward(model)
        self.check(f"{name}, without synchronization", model, usual)
        self.evaluate(model)
        usual = None if name == "FSDP1" else "FSDP1, without gradients"
        self.check(f"{name}, without gradients", model, usual)

    def test_options_of_flat_parameters(self):
        doubly = init_device_mesh(self.device_type, (1, 2), mesh_dim_names=("replicate", "shard"))
        kept, hybrid = ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.HYBRID_SHARD
        low = MixedPrecision(BF16, reduce_dtype=torch.float32)
        for name, options in (
            ("kept whole after the forward", {"sharding_strategy": kept}),
            ("replicated", {"sharding_strategy": ShardingStrategy.NO_SHARD}),
            ("on two dimensions", {"sharding_strategy": hybrid, "device_mesh": doubly}),
            ("prefetched late", {"backward_prefetch": BackwardPrefetch.BACKWARD_POST}),
            ("prefetched never", {"backward_prefetch": None}),
            ("prefetched in the forward", {"forward_prefetch": True}),
            ("of low precision", {"mixed_precision": low}),
            ("of low precision, kept whole", {"mixed_precision": low, "sharding_strategy": kept}),
        ):
            model = self.fsdp1(self.plain, Block, **options)
            usual = self.check_steps(f"FSDP1 {name}", model)
            self.check_without(f"FSDP1 {name}", model, usual)


if __name__ == "__main__":
    run_tests()
