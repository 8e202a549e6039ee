"""What becomes of a model in FSDP1 over time: freezing, evaluation, precision of buffers, hooks, names.

Not compiled; beside a plain copy that computes from the rows of all ranks.
"""

from __future__ import annotations

import copy
import sys
import unittest
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._comm_hooks import default_hooks
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision, ShardingStrategy

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.fsdp import reference
from suites.fsdp.base import ROUNDED, FsdpTestCase, held, plain_name
from suites.fsdp.models import Block, Net

STRATEGIES = (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD)
BF16 = torch.bfloat16
#: What computing in bfloat16 makes of numbers around 1.
LOW = {"rtol": 2.0**-4, "atol": 2.0**-6}


class Fsdp1DetailsTest(FsdpTestCase):
    """Two ranks with rows of their own."""

    def setUpRank(self):
        super().setUpRank()
        warnings.filterwarnings("ignore", category=FutureWarning)
        self.plain = Net().to(self.device)
        self.batches = [b.to(self.device) for b in reference.batches(3, self.world_size, Net.WIDTHS)]

    def wrapped(self, **options):
        return self.fsdp1(self.plain, Block, **options)

    def backward(self, sharded, number=0):
        """The backwards of this rank's loss, and of all ranks' in the plain model."""
        reference.loss_of(sharded, self.batches[number].of(self.rank)).backward()
        reference.loss_of(self.plain, self.batches[number]).backward()

    def check_gradients(self, sharded, *, whole=False, **rounded):
        """Check this rank's part of each gradient, of those that the plain model has."""
        found, _ = held(sharded)
        parameters = dict(self.plain.named_parameters())
        gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in parameters.items()}
        if whole:
            expected = {name: value.flatten() for name, value in gradients.items()}
        else:
            expected = reference.flat_shards(gradients, Net.units(), self.rank, self.world_size)
        for name, parameter in parameters.items():
            if parameter.grad is None:
                self.assertFalse(found.pop(name).any(), name)
                del expected[name]
        self.assertEqual(found, expected, **(rounded or ROUNDED))

    def zero(self, sharded):
        sharded.zero_grad()
        self.plain.zero_grad()

    def test_parameters_that_are_frozen_later(self):
        """They have no gradient any more, the others have theirs; then they have it again."""
        sharded = self.wrapped()
        for names in (("stem",), ("blocks.0", "stem"), (), ("blocks.1.up",)):
            for model in (sharded, self.plain):
                for name, parameter in model.named_parameters():
                    parameter.requires_grad_(not plain_name(name).startswith(names or "none"))
            self.zero(sharded)
            self.backward(sharded)
            with self.subTest(frozen=names):
                self.check_gradients(sharded)

    def test_all_are_frozen(self):
        sharded = self.wrapped()
        for parameter in sharded.parameters():
            parameter.requires_grad_(False)
        output = sharded(self.batches[0].of(self.rank).inputs)
        self.assertFalse(output.requires_grad)
        self.assertEqual(output, self.plain(self.batches[0].of(self.rank).inputs), **ROUNDED)

    def test_evaluation_between_steps(self):
        """A forward without gradients has the last step's numbers, and leaves the next step as it is."""
        for strategy in STRATEGIES:
            sharded = self.wrapped(sharding_strategy=strategy)
            optimizers = [
                torch.optim.SGD(each.parameters(), **reference.SGD) for each in (sharded, self.plain)
            ]
            rows = self.batches[2].of(self.rank).inputs
            with self.subTest(strategy):
                for number in range(2):
                    with torch.no_grad():
                        self.assertEqual(sharded.eval()(rows), self.plain(rows), **ROUNDED)
                    if strategy is not ShardingStrategy.SHARD_GRAD_OP:
                        sharded.train()(rows)  # nobody asks for its gradients
                    self.zero(sharded)
                    self.backward(sharded, number)
                    self.check_gradients(sharded, whole=strategy is ShardingStrategy.NO_SHARD)
                    for optimizer in optimizers:
                        optimizer.step()

    def test_gradients_add_up(self):
        """Those of steps that are reduced, and between them those of one that is not."""
        sharded = self.wrapped()
        self.zero(sharded)
        self.backward(sharded, 0)
        self.backward(sharded, 1)
        with sharded.no_sync():
            self.backward(sharded, 2)
        self.backward(sharded, 0)
        self.check_gradients(sharded)

    def test_gradients_in_other_memory(self):
        """A gradient that somebody has put in place of FSDP1's is what the next ones are added to."""
        sharded = self.wrapped()
        self.zero(sharded)
        self.backward(sharded, 0)
        for parameter in (*sharded.parameters(), *self.plain.parameters()):
            if parameter.grad is not None:
                parameter.grad = parameter.grad * 3
        self.backward(sharded, 1)
        self.check_gradients(sharded)

    def test_buffers_by_precision(self):
        """Cast at the first forward, in a state as they were; those of classes that are left out stay."""
        model = copy.deepcopy(self.plain)
        model.blocks[1].register_buffer("kept", torch.full((3,), 1.0 + 2**-12))
        model.register_buffer("cast", torch.full((3,), 1.0 + 2**-12))
        model.register_buffer("number", torch.tensor(7))
        policy = MixedPrecision(buffer_dtype=BF16)
        sharded = FSDP(model, use_orig_params=True, device_id=self.device, mixed_precision=policy)
        rows = self.batches[0].of(self.rank).inputs
        self.assertEqual(sharded(rows), self.plain(rows), **ROUNDED)
        self.assertEqual((model.cast.dtype, model.blocks[1].kept.dtype), (BF16, BF16))
        self.assertEqual(model.number.dtype, torch.int64)
        self.assertEqual(model.cast, torch.ones(3, dtype=BF16))
        with FSDP.state_dict_type(sharded, torch.distributed.fsdp.StateDictType.FULL_STATE_DICT):
            state = sharded.state_dict()
        self.assertEqual(state["cast"].dtype, torch.float32)
        self.assertEqual(model.cast.dtype, BF16)

    def test_precision_of_inputs(self):
        """Cast where parameters are, unless the policy leaves it to the caller."""
        for policy, expected in (
            (MixedPrecision(param_dtype=BF16), [BF16, BF16, BF16]),
            (MixedPrecision(param_dtype=BF16, cast_root_forward_inputs=False), None),
            (MixedPrecision(reduce_dtype=BF16), [torch.float32] * 3),
        ):
            sharded = self.wrapped(mixed_precision=policy)
            seen = []
            note = lambda module, args, seen=seen: seen.append(args[0].dtype)  # noqa: E731
            for module in (sharded.stem, sharded.blocks[0].up, sharded.head):
                module.register_forward_pre_hook(note)
            rows = self.batches[0].of(self.rank).inputs
            with self.subTest(policy):
                if expected is None:
                    with self.assertRaisesRegex(RuntimeError, "dtype"):
                        sharded(rows)
                else:
                    output = sharded(rows)
                    self.assertEqual(seen, expected)
                    self.assertEqual(output.dtype, expected[-1])
                    self.assertEqual(output.float(), self.plain(rows), **LOW)
                    self.assertEqual({each.dtype for each in sharded.parameters()}, {torch.float32})

    def test_inputs_that_are_no_floating_numbers(self):
        """Indices stay what they are, by place and by name, and so does what is in the right precision."""
        met = []

        class Lookup(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(4, 8)

            def forward(self, index, *, scale, mask):
                met.append((index.dtype, scale.dtype, mask.dtype))
                return self.table(index) * scale * mask

        plain = Lookup().to(self.device)
        sharded = self.fsdp1(plain, mixed_precision=MixedPrecision(param_dtype=BF16))
        index = torch.tensor([0, 3, 1], device=self.device)
        mask = torch.tensor([True, False, True], device=self.device)
        for dtype in (torch.float32, torch.float64, BF16):
            output = sharded(index, scale=torch.ones(8, dtype=dtype, device=self.device), mask=mask[:, None])
            self.assertEqual((output.dtype, met[-1]), (BF16, (torch.int64, BF16, torch.bool)))
            self.assertEqual(output.float(), plain.table(index) * mask[:, None], **LOW)

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 refuses such gradients on the CPU")
    def test_gradients_in_low_precision(self):
        """Kept so if the policy says it, and else as the parameters are."""
        for keep in (False, True):
            policy = MixedPrecision(param_dtype=BF16, keep_low_precision_grads=keep)
            sharded = self.wrapped(mixed_precision=policy, use_orig_params=False)
            reference.loss_of(sharded, self.batches[0].of(self.rank)).backward()
            self.plain.zero_grad()
            reference.loss_of(self.plain, self.batches[0]).backward()
            gradients = {name: each.grad for name, each in self.plain.named_parameters()}
            parts = reference.flat_shards(gradients, Net.units(), self.rank, self.world_size, 1)
            for flat, names in zip(sharded.parameters(), Net.units(), strict=True):
                self.assertEqual(flat.grad.dtype, BF16 if keep else torch.float32)
                self.assertEqual(flat.grad.float(), torch.cat([parts[name] for name in names]), **LOW)

    def test_hooks_in_place_of_the_reduction(self):
        """Called once a unit with its state; in half precision a gradient has passed through that."""
        state = default_hooks.DefaultState(dist.group.WORLD)
        sharded = self.wrapped()
        sharded.register_comm_hook(state, default_hooks.reduce_scatter_hook)
        self.backward(sharded)
        self.check_gradients(sharded)
        with self.assertRaisesRegex(AssertionError, "already registered"):
            sharded.register_comm_hook(state, default_hooks.reduce_scatter_hook)
        called = []

        def hook(state, gradient, part):
            called.append((state, gradient.numel(), part.numel()))
            default_hooks.reduce_scatter_hook(state, gradient, part)

        sharded = self.wrapped()
        sharded.register_comm_hook(state, hook)
        self.zero(sharded)
        self.backward(sharded)
        self.check_gradients(sharded)
        self.assertEqual([each[0] for each in called], [state] * 3)
        self.assertEqual([each[1] for each in called], [2 * each[2] for each in called])
        alone = self.wrapped(sharding_strategy=ShardingStrategy.NO_SHARD)
        alone.register_comm_hook(state, default_hooks.allreduce_hook)
        self.zero(alone)
        self.backward(alone)
        self.check_gradients(alone, whole=True)

    def test_units_and_names(self):
        """Units from the outside in, names as without FSDP, and functions that are applied to all modules."""
        sharded = self.wrapped()
        units = FSDP.fsdp_modules(sharded)
        self.assertEqual([type(each.module) for each in units], [Net, Block, Block])
        self.assertEqual(FSDP.fsdp_modules(sharded, root_only=True), [sharded])
        self.assertTrue(sharded.check_is_root())
        self.assertFalse(units[1].check_is_root())
        self.assertIs(sharded.stem, sharded.module.stem)
        with FSDP.summon_full_params(sharded):
            names = [name for name, _ in sharded.named_parameters()]
        self.assertEqual(names, [name for name, _ in self.plain.named_parameters()])
        for model in (sharded, self.plain):
            model.apply(
                lambda m: nn.init.constant_(m.weight, m.in_features) if isinstance(m, nn.Linear) else None
            )
        with FSDP.summon_full_params(sharded):
            for found, plain in zip(sharded.parameters(), self.plain.parameters(), strict=True):
                self.assertEqual(found, plain)

    def test_groups_of_a_hybrid(self):
        """A single module, without a policy: shards in the one group, replicas in the other."""
        alone, _ = dist.new_subgroups(1)
        hybrid = {"sharding_strategy": ShardingStrategy.HYBRID_SHARD, "device_id": self.device}
        for shards, replicas, number in ((dist.group.WORLD, alone, 2), (alone, dist.group.WORLD, 1)):
            with self.subTest(f"{number} shards"):
                sharded = FSDP(nn.Linear(3, 4), process_group=(shards, replicas), **hybrid)
                self.assertIs(sharded.process_group, shards)
                self.assertEqual([each.numel() for each in sharded.parameters()], [16 // number])
        with self.assertRaisesRegex(ValueError, "requires explicit specification of process group"):
            FSDP(nn.Linear(3, 4), **hybrid)

    def test_refused(self):
        """Parameters of several kinds in one flat one, and arguments that contradict each other."""
        rest = {"use_orig_params": False, "device_id": self.device}
        mixed = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, dtype=torch.float64))
        frozen = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False))
        number = nn.Module()
        number.weight = nn.Parameter(torch.tensor(1.0))
        whole = nn.Module()
        whole.weight = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
        for model, options, error, regex in (
            (mixed, {}, ValueError, "uniform dtype"),
            (frozen, {}, ValueError, "uniform `requires_grad`"),
            (number, {}, ValueError, "scalar parameters"),
            (whole, {}, ValueError, "[Ii]nteger dtype"),
            (nn.Linear(2, 2), {"ignored_states": [1]}, ValueError, "expects.* elements but got types"),
            (nn.Linear(2, 2), {"ignored_states": [], "ignored_modules": []}, ValueError, "Cannot pass both"),
        ):
            with self.subTest(regex), self.assertRaisesRegex(error, regex):
                FSDP(copy.deepcopy(model), **rest, **options)
        with (
            self.assertRaisesRegex(NotImplementedError, "with_grads=True, use_orig_params=False"),
            FSDP.summon_full_params(self.wrapped(use_orig_params=False), with_grads=True),
        ):
            pass


if __name__ == "__main__":
    run_tests()
