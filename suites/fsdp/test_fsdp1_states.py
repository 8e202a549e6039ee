"""FSDP1's states, of models and of optimizers, of every type: what each rank has of them, and the next
step of a model that has loaded one.
"""

from __future__ import annotations

import copy
import sys
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.fsdp import reference
from suites.fsdp.base import ROUNDED, FsdpTestCase, plain_name
from suites.fsdp.models import Block, Net

FULL, SHARDED, LOCAL = (getattr(StateDictType, f"{each}_STATE_DICT") for each in ("FULL", "SHARDED", "LOCAL"))


class Counting(Net):
    """Has rows that two ranks cannot cut evenly, and buffers, one of which is not kept."""

    WIDTHS = (8, 5)

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 5)
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("scale", torch.full((5,), 1.5))
        self.register_buffer("passing", torch.ones(2), persistent=False)

    def forward(self, x):
        return super().forward(x) * self.scale


class Partly(Counting):
    """Has a frozen parameter, of which an optimizer keeps no state."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Parameter(torch.randn(5), requires_grad=False)

    def forward(self, x):
        return super().forward(x) + self.frozen


def adam(model, parameters=None):
    """An optimizer that has other options for the first parameters than for the rest."""
    every = list(model.parameters()) if parameters is None else parameters
    return torch.optim.Adam([{"params": every[:1], "lr": 0.02}, {"params": every[1:]}], lr=0.1)


def whole(value):
    """A sharded tensor as a whole, on all ranks; anything else as it is."""
    if not hasattr(value, "local_shards"):
        return value
    found = torch.zeros(value.size())
    for shard in value.local_shards():
        rows = slice(
            shard.metadata.shard_offsets[0], shard.metadata.shard_offsets[0] + shard.metadata.shard_sizes[0]
        )
        found[rows] = shard.tensor
    dist.all_reduce(found)
    return found


class Fsdp1StatesTest(FsdpTestCase):
    """Two ranks with rows of their own, one step of Adam behind them."""

    def setUpRank(self):
        super().setUpRank()
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        self.start_with(Counting())
        self.batches = [b.to(self.device) for b in reference.batches(3, self.world_size, Counting.WIDTHS)]

    def start_with(self, model):
        """Make it the plain model, with an optimizer of its own."""
        self.plain = model.to(self.device)
        self.alone = adam(self.plain)
        self.first = copy.deepcopy(self.plain)
        self.names = [name for name, _ in self.plain.named_parameters()]
        self.trained = [name for name in self.names if name != "frozen"]

    def wrapped(self, model=None, **options):
        """A copy in FSDP1, its blocks as units, and its optimizer."""
        sharded = self.fsdp1(self.plain if model is None else model, Block, **options)
        return sharded, adam(sharded)

    def step(self, model, optimizer, number):
        optimizer.zero_grad()
        batch = self.batches[number]
        mine = batch if model is self.plain else batch.of(self.rank)
        reference.loss_of(model, mine).backward()
        optimizer.step()

    def check_whole(self, sharded, values=None):
        """Check all parameters, unsharded for the purpose."""
        values = dict(self.plain.named_parameters()) if values is None else values
        with FSDP.summon_full_params(sharded):
            found = {plain_name(name): each.detach().clone() for name, each in sharded.named_parameters()}
        self.assertEqual(found, {name: each.detach() for name, each in values.items()}, **ROUNDED)

    def test_models(self):
        """Whole everywhere, on rank 0 alone, or in shards: its parts, its buffers, and where it lies."""
        for use_orig_params in (True, False):
            sharded, _ = self.wrapped(use_orig_params=use_orig_params)
            expected, default = self.plain.state_dict(), FSDP.get_state_dict_type(sharded)
            for kind, config, mine in (
                (FULL, FullStateDictConfig(), True),
                (FULL, FullStateDictConfig(rank0_only=True), self.rank == 0),
                (SHARDED, ShardedStateDictConfig(), True),
                (SHARDED, ShardedStateDictConfig(offload_to_cpu=True), True),
            ):
                with self.subTest(use_orig_params=use_orig_params, config=config):
                    with FSDP.state_dict_type(sharded, kind, config):
                        self.assertEqual(FSDP.get_state_dict_type(sharded).state_dict_config, config)
                        state = sharded.state_dict()
                        prefixed = sharded.state_dict(prefix="of.")
                    self.assertEqual(FSDP.get_state_dict_type(sharded), default)
                    self.assertEqual(list(state), list(expected) if mine else [])
                    self.assertEqual(list(prefixed), [f"of.{name}" for name in state])
                    found = {name: whole(value) for name, value in state.items()}
                    self.assertEqual(found, expected if mine else {})
                    if kind is FULL:  # a copy: the next step leaves it alone
                        memory = {each.data_ptr() for each in sharded.parameters()}
                        self.assertTrue(memory.isdisjoint(each.data_ptr() for each in state.values()))

    def test_parts_of_models(self):
        """A shard has this rank's rows of a parameter; a local state has the flat parameters as they are."""
        sharded, _ = self.wrapped(use_orig_params=False)
        with FSDP.state_dict_type(sharded, SHARDED):
            state = sharded.state_dict()
        for name in self.names:
            (shard,) = state[name].local_shards() or [None]
            value = dict(self.plain.named_parameters())[name]
            rows = reference.row_shards({name: value.detach()}, self.rank, self.world_size)[name]
            self.assertEqual(state[name].size(), value.shape)
            self.assertEqual(rows[:0] if shard is None else shard.tensor, rows)
        with FSDP.state_dict_type(sharded, LOCAL, LocalStateDictConfig()):
            state = sharded.state_dict()
            flat = {plain_name(name): each for name, each in sharded.named_parameters()}
            self.assertEqual({"count", "scale", *flat}, set(state))
            for name, parameter in flat.items():
                (shard,) = state[name].local_shards()
                self.assertEqual(shard.tensor, parameter[: shard.tensor.numel()])
                self.assertEqual(shard.metadata.shard_offsets, [self.rank * parameter.numel()])
            other, _ = self.wrapped(Counting(), use_orig_params=False)
            with FSDP.state_dict_type(other, LOCAL):
                other.load_state_dict(state)
        self.check_whole(other)

    def test_models_that_load(self):
        """They have the numbers and the buffers, of each type, and refuse what does not fit."""
        for use_orig_params in (True, False):
            sharded, _ = self.wrapped(use_orig_params=use_orig_params)
            for kind in (FULL, SHARDED):
                start = Counting()
                with torch.no_grad():
                    start.scale.fill_(9)
                    start.count.fill_(9)
                other, _ = self.wrapped(start, use_orig_params=use_orig_params)
                with (
                    self.subTest(kind=kind, use_orig_params=use_orig_params),
                    FSDP.state_dict_type(sharded, kind),
                    FSDP.state_dict_type(other, kind),
                ):
                    state = sharded.state_dict()
                    loaded = other.load_state_dict(state)
                    self.assertEqual((loaded.missing_keys, loaded.unexpected_keys), ([], []))
                    self.check_whole(other)
                    self.assertEqual([*other.buffers()], [*self.plain.buffers()])
                    with self.assertRaisesRegex(RuntimeError, 'Unexpected key.*"more"'):
                        other.load_state_dict({**state, "more": torch.ones(1)})

    def check_optimizer_state(self, state, mine=True):
        """Check a state by names against the plain optimizer's."""
        if not mine:
            self.assertEqual(state, {})
            return
        self.assertEqual(set(state["state"]), set(self.trained))
        for name in state["state"]:
            expected = self.alone.state[dict(self.plain.named_parameters())[name]]
            found = state["state"][name]
            self.assertEqual(set(found), set(expected))
            for key, value in expected.items():
                self.assertEqual(whole(found[key]), value, f"{key} of {name}", **ROUNDED)
        groups = [(group["lr"], group["params"]) for group in state["param_groups"]]
        expected = [(group["lr"], len(group["params"])) for group in self.alone.param_groups]
        self.assertEqual([(lr, len(names)) for lr, names in groups], expected)
        self.assertEqual(sorted(name for _, names in groups for name in names), sorted(self.names))

    def test_optimizers(self):
        """Taken as a whole, on rank 0 alone, or in shards; a model that loads it makes the same next step."""
        self.start_with(Partly())
        self.step(self.plain, self.alone, 0)
        after = copy.deepcopy((self.plain, self.alone))
        for kind, config, optimizer_config, mine in (
            (FULL, FullStateDictConfig(), FullOptimStateDictConfig(offload_to_cpu=False), True),
            (
                FULL,
                FullStateDictConfig(rank0_only=True),
                FullOptimStateDictConfig(offload_to_cpu=False, rank0_only=True),
                self.rank == 0,
            ),
            (SHARDED, ShardedStateDictConfig(True), ShardedOptimStateDictConfig(offload_to_cpu=True), True),
        ):
            sharded, optimizer = self.wrapped(self.first)
            self.step(sharded, optimizer, 0)
            self.plain, self.alone = copy.deepcopy(after)
            with self.subTest(kind=kind, config=optimizer_config):
                with FSDP.state_dict_type(sharded, kind, config, optimizer_config):
                    self.assertEqual(
                        FSDP.get_state_dict_type(sharded).optim_state_dict_config, optimizer_config
                    )
                    state = FSDP.optim_state_dict(sharded, optimizer)
                with FSDP.state_dict_type(sharded, kind):
                    values = sharded.state_dict()
                self.check_optimizer_state(state, mine)
                other, later = self.wrapped(Partly())
                with FSDP.state_dict_type(other, kind, optim_state_dict_config=optimizer_config):
                    other.load_state_dict(values)
                    later.load_state_dict(FSDP.optim_state_dict_to_load(other, later, state))
                self.check_whole(other)
                self.step(self.plain, self.alone, 1)
                self.step(other, later, 1)
                self.check_whole(other)

    def test_optimizers_of_flat_parameters(self):
        """They have one state a unit; taken, it is one a parameter, as the plain optimizer has it."""
        self.alone = torch.optim.Adam(self.plain.parameters(), lr=0.1)
        self.step(self.plain, self.alone, 0)
        for kind, config in (
            (FULL, FullOptimStateDictConfig(offload_to_cpu=False)),
            (SHARDED, ShardedOptimStateDictConfig()),
        ):
            after = copy.deepcopy((self.plain, self.alone))
            sharded = self.fsdp1(self.first, Block, use_orig_params=False)
            optimizer = torch.optim.Adam(sharded.parameters(), lr=0.1)
            self.step(sharded, optimizer, 0)
            other = self.fsdp1(Counting(), Block, use_orig_params=False)
            later = torch.optim.Adam(other.parameters(), lr=0.3)
            with self.subTest(kind=kind), warnings.catch_warnings():
                for model in (sharded, other):
                    FSDP.set_state_dict_type(model, kind, optim_state_dict_config=config)
                state = FSDP.optim_state_dict(sharded, optimizer)
                self.check_optimizer_state(state)
                other.load_state_dict(sharded.state_dict())
                FSDP.optim_state_dict_to_load(other, later, state, load_directly=True)
                self.assertEqual([group["lr"] for group in later.param_groups], [0.1])
                self.step(other, later, 1)
                self.step(self.plain, self.alone, 1)
                self.check_whole(other)
            self.plain, self.alone = after

    def test_states_by_number(self):
        """A state by names is one by numbers and back; a plain model's by numbers is one that FSDP1 takes."""
        self.start_with(Partly())
        self.step(self.plain, self.alone, 0)
        sharded, optimizer = self.wrapped(self.first)
        self.step(sharded, optimizer, 0)
        config = FullOptimStateDictConfig(offload_to_cpu=False)
        FSDP.set_state_dict_type(sharded, FULL, optim_state_dict_config=config)
        by_name = FSDP.optim_state_dict(sharded, optimizer)
        by_number = FSDP.rekey_optim_state_dict(by_name, OptimStateKeyType.PARAM_ID, self.plain)
        numbers = {name: self.names.index(name) for name in self.trained}
        self.assertEqual(set(by_number["state"]), set(numbers.values()))
        for number in numbers.values():
            self.assertEqual(by_number["state"][number], self.alone.state_dict()["state"][number], **ROUNDED)
        groups = [group["params"] for group in by_number["param_groups"]]
        self.assertEqual(groups, [[0], list(range(1, len(self.names)))])
        again = FSDP.rekey_optim_state_dict(by_number, OptimStateKeyType.PARAM_NAME, self.plain)
        self.check_optimizer_state(again)

    @needs(Capability.FUNCTIONAL)
    def test_on_a_mesh(self):
        """Shards are DTensors there, on the ranks of the mesh; flat ones are refused."""
        mesh = init_device_mesh(self.device_type, (self.world_size,))
        self.step(self.plain, self.alone, 0)
        sharded, optimizer = self.wrapped(self.first, device_mesh=mesh)
        self.step(sharded, optimizer, 0)
        with FSDP.state_dict_type(sharded, SHARDED):
            states = sharded.state_dict(), FSDP.optim_state_dict(sharded, optimizer)
            averages = {name: value["exp_avg"] for name, value in states[1]["state"].items()}
            for name, parameter in self.plain.named_parameters():
                for found, value in (
                    (states[0][name], parameter.detach()),
                    (averages[name], self.alone.state[parameter]["exp_avg"]),
                ):
                    self.assertEqual(found.device_mesh, mesh)
                    rows = reference.row_shards({name: value}, self.rank, self.world_size)[name]
                    self.assertEqual(found.to_local(), rows, name, **ROUNDED)
                    self.assertEqual(found.shape, value.shape)
            other, later = self.wrapped(Counting(), device_mesh=mesh)
            with FSDP.state_dict_type(other, SHARDED):
                other.load_state_dict(states[0])
                later.load_state_dict(FSDP.optim_state_dict_to_load(other, later, states[1]))
        self.step(self.plain, self.alone, 1)
        self.step(other, later, 1)
        self.check_whole(other)
        with self.assertRaisesRegex(RuntimeError, "DeviceMesh is not compatible with LOCAL_STATE_DICT"):
            FSDP.set_state_dict_type(sharded, LOCAL)
            sharded.state_dict()

    def test_of_what_is_not_cut(self):
        """A model that every rank has whole has whole states, says so, and keeps what is written to it."""
        sharded, _ = self.wrapped(sharding_strategy=ShardingStrategy.NO_SHARD)
        with (
            FSDP.state_dict_type(sharded, SHARDED),
            self.assertWarnsRegex(UserWarning, "full_state_dict will be returned"),
        ):
            state = sharded.state_dict()
        self.assertEqual(state, self.plain.state_dict())
        self.assertEqual({type(each) for each in state.values()}, {torch.Tensor})
        with FSDP.summon_full_params(sharded), torch.no_grad():
            for parameter in (*sharded.parameters(), *self.plain.parameters()):
                parameter.mul_(2)
        self.check_whole(sharded)

    def test_of_what_is_ignored(self):
        """An optimizer's state has it too, as it is: of this rank's own rows."""
        self.step(self.plain, self.alone, 0)
        model = copy.deepcopy(self.first)
        sharded = FSDP(model, use_orig_params=True, device_id=self.device, ignored_states=[model.head])
        optimizer = torch.optim.Adam(sharded.parameters(), lr=0.1)
        self.step(sharded, optimizer, 0)
        FSDP.set_state_dict_type(
            sharded, FULL, optim_state_dict_config=FullOptimStateDictConfig(offload_to_cpu=False)
        )
        state = FSDP.optim_state_dict(sharded, optimizer)["state"]
        self.assertEqual(set(state), set(self.names))
        for name, parameter in self.plain.named_parameters():
            if name.startswith("head"):
                expected = optimizer.state[dict(model.named_parameters())[name]]
            else:
                expected = self.alone.state[parameter]
            self.assertEqual(state[name], expected, name, **ROUNDED)


if __name__ == "__main__":
    run_tests()
