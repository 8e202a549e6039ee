"""FSDP1's options and contexts, not compiled: what one process computes from all rows, step after step."""

from __future__ import annotations

import copy
import sys
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import always_wrap_policy, enable_wrap, wrap

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.fsdp import reference
from suites.fsdp.base import ROUNDED, FsdpTestCase, held
from suites.fsdp.models import Block, Net
from suites.fsdp.sharding_options import Alone, Options, ScaledNet, loss_of
from suites.fsdp.traffic import communicated

#: One step between neighbours in bfloat16, and a little.
LOW = {"rtol": 2.0**-6, "atol": 5e-4}
BF16 = torch.bfloat16


class Fsdp1OptionsTest(FsdpTestCase):
    """Two ranks with rows of their own."""

    def setUpRank(self):
        super().setUpRank()
        # Types of states other than sharded ones of FSDP2 are deprecated, and used.
        warnings.filterwarnings("ignore", category=FutureWarning)
        self.plain = Net().to(self.device)
        self.batches = [b.to(self.device) for b in reference.batches(3, self.world_size, Net.WIDTHS)]

    def wrapped(self, *, nested=True, **options):
        """The model in FSDP1, its blocks as units of their own."""
        return self.fsdp1(self.plain, *([Block] if nested else []), **options)

    def backward(self, sharded, batch):
        """The backwards of this rank's loss, and of all ranks' in the plain model."""
        reference.loss_of(sharded, batch.of(self.rank)).backward()
        reference.loss_of(self.plain, batch).backward()

    def part(self, values, *, nested=True, whole=False):
        """What this rank holds of whole tensors."""
        if whole:
            return {name: value.flatten() for name, value in values.items()}
        units = Net.units() if nested else [list(values)]
        return reference.flat_shards(values, units, self.rank, self.world_size)

    def check_gradients(self, sharded, **how):
        found, _ = held(sharded)
        gradients = {name: parameter.grad for name, parameter in self.plain.named_parameters()}
        self.assertEqual(found, self.part(gradients, **how), **ROUNDED)

    def check_step(self, *, nested=True, whole=False, **options):
        """Two steps, each of three batches of which the last alone is reduced."""
        self.plain.zero_grad()
        sharded = self.wrapped(nested=nested, **options)
        for step in range(2):
            sharded.zero_grad()
            self.plain.zero_grad()
            with sharded.no_sync():
                for batch in self.batches[:2]:
                    self.backward(sharded, batch)
            self.backward(sharded, self.batches[2])
            with self.subTest(step=step, nested=nested, **options):
                self.check_gradients(sharded, nested=nested, whole=whole)

    def test_accumulated_gradients_by_options(self):
        for nested in (True, False):
            self.check_step(nested=nested)
        for options in (
            {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP},
            {"backward_prefetch": BackwardPrefetch.BACKWARD_POST},
            {"backward_prefetch": None, "forward_prefetch": True, "limit_all_gathers": False},
        ):
            self.check_step(**options)
        self.check_step(whole=True, sharding_strategy=ShardingStrategy.NO_SHARD)

    def test_gathered_ahead_in_the_backward(self):
        """With BACKWARD_PRE a block's parameters are asked for before the backward of the one after it, and
        else when that one has its gradients, or when they are needed."""
        for prefetch, ahead in (
            (BackwardPrefetch.BACKWARD_PRE, [2, 2]),
            (BackwardPrefetch.BACKWARD_POST, [1, 2]),
            (None, [1, 2]),
        ):
            sharded = self.wrapped(backward_prefetch=prefetch)
            with communicated() as traffic:
                gathered = []  # so far, as the backward of each block begins

                def note(*_, traffic=traffic, gathered=gathered):
                    gathered.append(sum(n for (what, _), n in traffic.items() if what == "all_gather"))

                for block in sharded.blocks:
                    block.module.register_full_backward_pre_hook(note)
                loss = reference.loss_of(sharded, self.batches[0].of(self.rank))
                traffic.clear()
                loss.backward()
            with self.subTest(prefetch=prefetch):
                self.assertEqual(gathered, ahead)

    def test_no_sync_inside_of_itself_and_left_by_an_exception(self):
        sharded = self.wrapped()
        with sharded.no_sync():
            with sharded.no_sync():
                self.backward(sharded, self.batches[0])
            self.backward(sharded, self.batches[1])
        with self.assertRaises(ZeroDivisionError), sharded.no_sync():
            raise ZeroDivisionError
        self.backward(sharded, self.batches[2])
        self.check_gradients(sharded)

    def test_mixed_precision(self):
        for param, reduce in ((BF16, None), (BF16, torch.float32), (None, BF16)):
            model = ScaledNet().to(self.device)
            chosen = Options(param=param, reduce=reduce)
            alone = Alone(model, chosen, self.world_size)
            policy = MixedPrecision(param_dtype=param, reduce_dtype=reduce)
            sharded = self.fsdp1(model, Block, mixed_precision=policy)
            rows = self.batches[0]
            parts = [[(rows.of(r).inputs, rows.of(r).targets)] for r in range(self.world_size)]
            for _ in range(2):
                sharded.zero_grad()
                output = sharded(rows.of(self.rank).inputs)
                self.assertEqual(output.dtype, chosen.given)
                loss_of(output, rows.of(self.rank).targets).backward()
            found, parameters = held(sharded)
            own = [name for name, _ in model.named_parameters() if not name.startswith("blocks")]
            units = [own, *Net.units()[1:]]
            expected = alone.gradients(self.rank, parts)
            with self.subTest(param=param, reduce=reduce):
                aligned = reference.ALIGNED if param is None else 2 * reference.ALIGNED
                shards = reference.flat_shards(expected, units, self.rank, self.world_size, aligned)
                self.assertEqual(found, shards, **LOW)
                self.assertEqual({each.dtype for each in parameters.values()}, {torch.float32})

    def test_ignored(self):
        """What is ignored stays whole, and each rank's gradient of it is its own."""
        own = copy.deepcopy(self.plain)
        reference.loss_of(own, self.batches[0].of(self.rank)).backward()
        for name in ("ignored_modules", "ignored_states"):
            model = copy.deepcopy(self.plain)
            sharded = FSDP(model, use_orig_params=True, device_id=self.device, **{name: [model.head]})
            self.plain.zero_grad()
            self.backward(sharded, self.batches[0])
            with self.subTest(name):
                self.assertEqual(model.head.weight, self.plain.head.weight)
                self.assertEqual(model.head.weight.grad, own.head.weight.grad, **ROUNDED)
                found, _ = held(sharded)
                names = [n for n, _ in self.plain.named_parameters() if not n.startswith("head")]
                gradients = {n: dict(self.plain.named_parameters())[n].grad for n in names}
                shards = reference.flat_shards(gradients, [names], self.rank, self.world_size)
                self.assertEqual({n: found[n] for n in names}, shards, **ROUNDED)

    def test_summoned_parameters(self):
        """Whole in the region; what is written there stays only if it is written back."""
        sharded = self.wrapped()
        self.backward(sharded, self.batches[0])
        _, before = held(sharded)
        plain = dict(self.plain.named_parameters())
        for writeback in (False, True):
            with FSDP.summon_full_params(sharded, writeback=writeback, with_grads=True):
                for name, parameter in sharded.named_parameters():
                    name = name.replace("_fsdp_wrapped_module.", "")
                    self.assertEqual(parameter, plain[name], name)
                    self.assertEqual(parameter.grad, plain[name].grad, name, **ROUNDED)
                    with torch.no_grad():
                        parameter.add_(1)
            _, after = held(sharded)
            added = float(writeback)
            self.assertEqual(after, {name: value + added for name, value in before.items()})
        with FSDP.summon_full_params(sharded, recurse=False):
            self.assertEqual(sharded.stem.weight.shape, (8, 8))
            self.assertEqual(sharded.blocks[0].up.weight.ndim, 1)
        unsharded = self.wrapped(sharding_strategy=ShardingStrategy.NO_SHARD)
        with (
            self.assertRaisesRegex(NotImplementedError, "offload_to_cpu=True and NO_SHARD"),
            FSDP.summon_full_params(unsharded, offload_to_cpu=True, writeback=False),
        ):
            pass
        with self.assertRaises(ZeroDivisionError), FSDP.summon_full_params(sharded):
            raise ZeroDivisionError
        self.assertLess(sharded.stem.weight.numel() + sharded.head.weight.numel(), 96)

    def test_parameters_in_other_memory(self):
        """What a sharded parameter is given in place of its memory counts from the next forward on."""
        sharded = self.wrapped()
        self.backward(sharded, self.batches[0])
        sharded.to(self.device)  # where it is already: its parameters are made anew, and stay shards
        self.check_gradients(sharded)
        sharded.zero_grad()
        self.plain.zero_grad()
        for parameter in (*sharded.parameters(), *self.plain.parameters()):
            parameter.data = parameter.data * 1.5
        self.backward(sharded, self.batches[1])
        self.check_gradients(sharded)
        for each in FSDP.fsdp_modules(sharded.double()):
            self.assertEqual(each._handle.flat_param.dtype, torch.float64)

    def test_ways_of_wrapping(self):
        """By a policy that takes all modules, and by annotations, which do nothing outside of a region."""
        everything = self.fsdp1(self.plain, auto_wrap_policy=always_wrap_policy)
        self.assertEqual(len(FSDP.fsdp_modules(everything)), len(list(self.plain.modules())))
        annotated = copy.deepcopy(self.plain)
        self.assertIs(wrap(annotated.stem), annotated.stem)
        options = {"use_orig_params": True, "device_id": self.device}
        with enable_wrap(wrapper_cls=FSDP, **options):
            annotated.stem = wrap(annotated.stem)
            annotated = wrap(annotated, forward_prefetch=True)
        self.assertIs(wrap(self.plain.stem), self.plain.stem)
        self.assertEqual([each.forward_prefetch for each in FSDP.fsdp_modules(annotated)], [True, False])
        for sharded in (everything, annotated):
            self.plain.zero_grad()
            self.backward(sharded, self.batches[0])
            with FSDP.summon_full_params(sharded, with_grads=True):
                for found, plain in zip(sharded.parameters(), self.plain.parameters(), strict=True):
                    self.assertEqual(found.grad, plain.grad, **ROUNDED)

    def test_norms_and_clipping(self):
        for norm_type in (2.0, 1.0, float("inf")):
            sharded = self.wrapped()
            self.plain.zero_grad()
            self.backward(sharded, self.batches[0])
            expected = nn.utils.clip_grad_norm_(self.plain.parameters(), 0.05, norm_type)
            with self.subTest(norm_type=norm_type):
                self.assertGreater(expected.item(), 0.05)
                self.assertEqual(sharded.clip_grad_norm_(0.05, norm_type), expected, **ROUNDED)
                self.check_gradients(sharded)

    def test_states_of_an_optimizer(self):
        """Taken as a whole from one sharded model and loaded into another, it has the same next step."""
        sharded, other = self.wrapped(), self.wrapped(nested=False)
        optimizers = [torch.optim.Adam(each.parameters(), lr=0.1) for each in (sharded, other)]
        plain = torch.optim.Adam(self.plain.parameters(), lr=0.1)
        self.backward(sharded, self.batches[0])
        for each in (optimizers[0], plain):
            each.step()
            each.zero_grad()
        for model in (sharded, other):
            FSDP.set_state_dict_type(
                model,
                StateDictType.FULL_STATE_DICT,
                FullStateDictConfig(),
                FullOptimStateDictConfig(offload_to_cpu=False),
            )
        state = FSDP.optim_state_dict(sharded, optimizers[0])
        by_name = dict(zip((n for n, _ in self.plain.named_parameters()), plain.state.values(), strict=True))
        for name, values in by_name.items():
            self.assertEqual(state["state"][name]["exp_avg"], values["exp_avg"], name, **ROUNDED)
            self.assertEqual(state["state"][name]["step"], values["step"], name)
        other.load_state_dict(sharded.state_dict())
        optimizers[1].load_state_dict(FSDP.optim_state_dict_to_load(other, optimizers[1], state))
        self.backward(other, self.batches[1])
        for each in (optimizers[1], plain):
            each.step()
        self.assertEqual(other.state_dict(), self.plain.state_dict(), rtol=1e-4, atol=1e-4)

    def test_states_of_an_optimizer_in_another_order(self):
        """Of an optimizer that has the parameters in groups, and in an order of its own."""

        def adam(model):
            *others, last = model.parameters()
            return torch.optim.Adam([{"params": [last], "lr": 0.2}, {"params": others[::-1]}], lr=0.1)

        sharded = self.wrapped()
        optimizer, plain = adam(sharded), adam(self.plain)
        self.backward(sharded, self.batches[0])
        for each in (optimizer, plain):
            each.step()
        whole = FullStateDictConfig(), FullOptimStateDictConfig(offload_to_cpu=False)
        with FSDP.state_dict_type(sharded, StateDictType.FULL_STATE_DICT, *whole):
            state = FSDP.optim_state_dict(sharded, optimizer)
        names = {parameter: name for name, parameter in self.plain.named_parameters()}
        self.assertEqual(
            [(group["lr"], group["params"]) for group in state["param_groups"]],
            [(group["lr"], [names[each] for each in group["params"]]) for group in plain.param_groups],
        )
        self.assertEqual(set(state["state"]), set(names.values()))
        for parameter, values in plain.state.items():
            name = names[parameter]
            self.assertEqual(state["state"][name]["exp_avg"], values["exp_avg"], name, **ROUNDED)


if __name__ == "__main__":
    run_tests()
