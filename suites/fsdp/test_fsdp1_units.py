"""FSDP1's units as users see them: flat parameters, units of one parameter, weights that are not contiguous,
parameters without memory, what is warned about and what is refused. Not compiled.
"""

from __future__ import annotations

import copy
import sys
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed._composable import replicate
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.profiler import ProfilerActivity, profile

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.fsdp import reference
from suites.fsdp.base import ROUNDED, FsdpTestCase, plain_name

WIDTH = 6


class Transposed(nn.Module):
    """A product with one weight, whose columns lie one behind the other."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH + 1).t())

    def forward(self, x):
        return torch.cat([x, x[:, :1]], 1) @ self.weight


class Mixed(nn.Module):
    """A layer, a unit of one parameter, and one that has a transposed and an ordinary parameter."""

    WIDTHS = (WIDTH, WIDTH)

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.one = Transposed()
        self.two = nn.Sequential(Transposed(), nn.Linear(WIDTH, WIDTH, bias=False))

    def forward(self, x):
        return self.two(torch.tanh(self.one(torch.tanh(self.first(x)))))

    def units(self):
        """The names of the parameters of each unit, the root's first, as ``reference`` wants them."""
        names = [name for name, _ in self.named_parameters()]
        return [[name for name in names if name.startswith(part)] for part in ("first", "one", "two")]


class Fsdp1UnitsTest(FsdpTestCase):
    """Two ranks with rows of their own."""

    def setUpRank(self):
        super().setUpRank()
        # From here on a warning is an error, but for what is said of states other than FSDP2's.
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*without a `barrier` or `device_id`")
        self.plain = Mixed().to(self.device)
        self.batches = [b.to(self.device) for b in reference.batches(3, self.world_size, Mixed.WIDTHS)]

    def wrapped(self, model=None, **options):
        """A copy of the model in FSDP1, in three units."""
        model = copy.deepcopy(self.plain if model is None else model)
        options = {"device_id": self.device, **options}
        model.one = FSDP(model.one, **options)
        model.two = FSDP(model.two, **options)
        return FSDP(model, **options)

    def step(self, *models):
        """A step of SGD with momentum of each of them; the plain one takes all ranks' rows."""
        optimizers = [torch.optim.SGD(model.parameters(), **reference.SGD) for model in models]
        for batch in self.batches:
            for model, optimizer in zip(models, optimizers, strict=True):
                optimizer.zero_grad()
                mine = batch if model is self.plain else batch.of(self.rank)
                reference.loss_of(model, mine).backward()
                optimizer.step()

    def values(self):
        return {name: parameter.detach() for name, parameter in self.plain.named_parameters()}

    def in_memory(self):
        """The plain parameters' numbers in the order in which they lie there, as FSDP1 takes them."""
        return {name: value.as_strided((value.numel(),), (1,)) for name, value in self.values().items()}

    def slices(self, values, aligned):
        """This rank's part of each unit's flat parameter, padded at the end as ranks need it."""
        parts = reference.flat_shards(values, self.plain.units(), self.rank, self.world_size, aligned)
        return [torch.cat([parts[name] for name in names]) for names in self.plain.units()]

    def test_flat_parameters(self):
        """Without the original parameters a unit has one: its rank's slice of all, with no gap between."""
        sharded = self.wrapped(use_orig_params=False)
        self.step(self.plain, sharded)
        flat = [each.detach() for each in sharded.parameters()]
        for found, expected in zip(flat, self.slices(self.in_memory(), 1), strict=True):
            self.assertEqual(found[: len(expected)], expected, **ROUNDED)
            self.assertEqual(found[len(expected) :].count_nonzero(), 0)
        with FSDP.summon_full_params(sharded):
            found = {plain_name(name): each for name, each in sharded.named_parameters()}
            self.assertEqual(found, self.values(), exact_stride=True, **ROUNDED)
        self.assertEqual([each.shape for each in sharded.parameters()], [each.shape for each in flat])

    def check_shards(self, sharded):
        """Check this rank's part of each parameter."""
        expected = reference.flat_shards(self.in_memory(), self.plain.units(), self.rank, self.world_size)
        found = {plain_name(name): each.flatten() for name, each in sharded.named_parameters()}
        self.assertEqual(found, expected, **ROUNDED)

    def test_original_parameters(self):
        sharded = self.wrapped(use_orig_params=True)
        self.step(self.plain, sharded)
        self.check_shards(sharded)

    def test_one_parameter_of_two_modules(self):
        """It is one before, in and after a step, has the gradients of both uses, and is stepped once."""
        for use_orig_params in (True, False):
            self.plain = Mixed().to(self.device)
            self.plain.second = nn.Linear(WIDTH, WIDTH, device=self.device)
            self.plain.second.weight = self.plain.first.weight
            self.plain.register_forward_hook(lambda module, args, output: module.second(output))
            sharded = self.wrapped(use_orig_params=use_orig_params)
            self.step(self.plain, sharded)
            with FSDP.summon_full_params(sharded, with_grads=use_orig_params):
                self.assertIs(sharded.second.weight, sharded.first.weight)
                found = {plain_name(name): each for name, each in sharded.named_parameters()}
                self.assertEqual(found, self.values(), **ROUNDED)
                if use_orig_params:
                    gradient = sharded.second.weight.grad
                    self.assertEqual(gradient, self.plain.second.weight.grad, **ROUNDED)
            self.assertIs(sharded.second.weight, sharded.first.weight)

    def test_replicated_module_is_left_alone(self):
        """A module inside that another way of training in parallel has taken is not cut."""
        model = copy.deepcopy(self.plain)
        replicate(model.two)
        sharded = FSDP(model, device_id=self.device, use_orig_params=True)
        self.assertEqual(dict(sharded.module.two.named_parameters()), dict(self.plain.two.named_parameters()))
        others = [*sharded.first.parameters(), *sharded.one.parameters()]
        self.assertLess(sum(each.numel() for each in others), 42 + 42)

    def test_ranges_of_a_profile(self):
        """What FSDP1 does in a step has a name in a profile of it."""
        sharded = self.wrapped(use_orig_params=True)
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
            reference.loss_of(sharded, self.batches[0].of(self.rank)).backward()
        prefix = "FullyShardedDataParallel."
        names = {each.name.removeprefix(prefix) for each in profiled.events() if each.name.startswith(prefix)}
        expected = "forward _pre_forward _post_forward _root_pre_forward _to_kwargs _pre_backward_hook"
        expected += (
            " _pre_forward_prefetch _pre_backward_prefetch _post_backward_hook _post_backward_prefetch"
        )
        self.assertLessEqual(set(expected.split()), names)

    def test_parameters_without_memory(self):
        """What is on the meta device is made by ``param_init_fn``, once for each unit."""
        with torch.device("meta"):
            model = Mixed()
        asked = []

        def make(module):
            asked.append(type(module).__name__)
            module.to_empty(device=self.device, recurse=False)
            for parameter in module.parameters(recurse=False):
                nn.init.constant_(parameter, parameter.shape[0])

        sharded = self.wrapped(model, param_init_fn=make, use_orig_params=True)
        with FSDP.summon_full_params(sharded):
            for parameter in sharded.parameters():
                self.assertEqual(parameter, torch.full_like(parameter, parameter.shape[0]))
        self.assertEqual(sorted(asked), sorted(type(each).__name__ for each in model.modules()))

    def test_whole_on_rank_0_alone(self):
        sharded = self.wrapped(use_orig_params=True)
        shapes = [each.shape for each in self.plain.parameters()]
        held = [each.shape for each in sharded.parameters()]
        with FSDP.summon_full_params(sharded, rank0_only=True, writeback=False):
            found = [each.shape for each in sharded.parameters()]
            self.assertEqual(found, held if self.rank else shapes)
            if self.rank == 0:
                self.assertEqual(list(sharded.parameters()), list(self.plain.parameters()))
        self.assertEqual([each.shape for each in sharded.parameters()], held)

    def test_what_is_warned_about(self):
        """What costs memory or has no effect is said, and nothing else (warnings are errors here)."""
        for rank0_only, regex in ((True, None), (False, "redundantly copied to CPU memory")):
            sharded = self.wrapped(use_orig_params=True)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                with FSDP.summon_full_params(
                    sharded, offload_to_cpu=True, rank0_only=rank0_only, writeback=False
                ):
                    pass
            words = {str(each.message) for each in said if issubclass(each.category, UserWarning)}
            self.assertEqual(len(words), int(regex is not None), words)
            self.assertRegex(" ".join(words), regex or "^$")

    def test_refused(self):
        sharded = self.wrapped(use_orig_params=True)
        x = self.batches[0].of(self.rank).inputs
        with (
            self.assertRaisesRegex(NotImplementedError, "writeback=True and rank0_only=True"),
            FSDP.summon_full_params(sharded, rank0_only=True),
        ):
            pass
        weight = sharded.first.weight
        weight.data = torch.cat([weight.data.flatten(), weight.data.flatten()])
        with self.assertRaisesRegex(RuntimeError, "Cannot writeback when the parameter shape changes"):
            sharded(x)
        if self.device.type == "cpu":
            with self.assertRaisesRegex(ValueError, "sync_module_states=True.*requires them to be on GPU"):
                self.wrapped(sync_module_states=True)

    def test_flat_parameter_of_another_size(self):
        """A shard that somebody has cut is noticed before it is gathered."""
        sharded = self.wrapped(use_orig_params=False, sharding_strategy=ShardingStrategy.FULL_SHARD)
        flat = next(sharded.parameters())
        flat.data = flat.data[:-1]
        with self.assertRaisesRegex(AssertionError, "Expects tensor to be unsharded with size"):
            sharded(self.batches[0].of(self.rank).inputs)


if __name__ == "__main__":
    run_tests()
