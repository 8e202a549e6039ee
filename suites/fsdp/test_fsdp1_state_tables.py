"""What FSDP1 makes of states of models and of optimizers, by its options: as ``fsdp1_states.txt`` has it.

The states are written by hand, of whole numbers and of all kinds that an optimizer can keep, so that what
comes of them is exact. A section that is not as torch has it is shown as it would have to be.
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
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import accepted_sections, as_section
from suites.fsdp.base import FsdpTestCase, plain_name
from suites.fsdp.state_words import optimizer_lines, state_lines

ACCEPTED = Path(__file__).with_name("fsdp1_states.txt")
FULL, SHARDED, LOCAL = (getattr(StateDictType, f"{each}_STATE_DICT") for each in ("FULL", "SHARDED", "LOCAL"))
#: What a state can be refused with.
REFUSALS = (ValueError, RuntimeError, AssertionError, KeyError, TypeError, NotImplementedError)


class Unit(nn.Module):
    """Has rows that two ranks do not cut evenly, a frozen parameter, and a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(15.0).reshape(5, 3))
        self.frozen = nn.Parameter(torch.arange(3.0) + 100, requires_grad=False)
        self.bias = nn.Parameter(torch.arange(7.0) + 200)
        self.register_buffer("count", torch.tensor([7, 8]))


class Model(nn.Module):
    """A unit, a parameter beside it that has two names, and a short one."""

    def __init__(self, *, trained=False):
        super().__init__()
        self.unit = Unit()
        self.unit.frozen.requires_grad_(trained)
        self.even = nn.Parameter(torch.arange(8.0).reshape(4, 2) + 300)
        self.again = self.even
        self.short = nn.Parameter(torch.arange(2.0) + 400)


def state_of(value, number, *, mixed=True):
    """The state of a parameter: tensors of its shape, ``mixed`` of two types, and what is none."""
    places = torch.arange(float(value.numel()), dtype=torch.float64).reshape(value.shape)
    return {
        "average": (places + 1000 * number).to(torch.float32 if mixed else torch.float64),
        "square": places + 500 * number,
        "step": torch.tensor(float(number % 10)),
        "word": f"of {number % 2}",
        "number": 7,
        "nothing": None,
    }


def sendable(state):
    """An optimizer's state without what one rank cannot send to the others: what is no tensor."""
    tensors = {
        key: {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        for key, values in state.get("state", {}).items()
    }
    return {**state, "state": tensors} if state else state


@unittest.skipUnless(torch_at_least("2.13"), "the states are those of torch 2.13")
class Fsdp1StateTablesTest(FsdpTestCase):
    """Two ranks, whose sections are the same where the file has none of a rank's own."""

    def setUpRank(self):
        super().setUpRank()
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        self.sections = accepted_sections(ACCEPTED)

    def check(self, name, lines):
        own = f"{name}, rank {self.rank}"
        with self.subTest(name):
            self.assertEqual(lines, self.sections.get(own, self.sections.get(name)), as_section(own, lines))

    def check_call(self, name, call, lines):
        """Check what a call gives, in ``lines``, or how it refuses; returns what it gives."""
        try:
            found = call()
        except REFUSALS as error:
            self.check(name, [f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"])
            return None
        self.check(name, lines(found))
        return found

    def wrapped(self, model=None, **options):
        return self.fsdp1(Model() if model is None else model, Unit, **options)

    def optimizer(self, model, *, filled=True, without=()):
        """An optimizer of two groups, with a state for what is trained and has a part on this rank."""
        named = {plain_name(name): each for name, each in model.named_parameters()}
        every = [each for name, each in named.items() if name not in without]
        # The states of original parameters that are cut are gathered as one: they are of one type.
        mixed = any("_flat_param" in name for name in named)
        optimizer = torch.optim.SGD([{"params": every[:1], "lr": 0.5}, {"params": every[1:]}], lr=0.25)
        if filled:
            for number, each in enumerate(every, 1):
                if each.requires_grad and each.numel():
                    optimizer.state[each] = state_of(each, number + 10 * self.rank, mixed=mixed)
        return optimizer

    def check_states(self, name, model, other):
        """Take the states of both kinds, and have another model take them."""
        self.check_call(f"{name}, model", lambda: model.state_dict(), state_lines)
        self.check_optimizers(
            name, (model, self.optimizer(model)), (other, self.optimizer(other, filled=False))
        )

    def check_optimizers(self, name, one, other):
        """Take the state of one model's optimizer, and have another's take it."""
        taken = self.check_call(name, lambda: FSDP.optim_state_dict(*one), optimizer_lines)
        if taken is None:
            return
        if "first rank" in name:
            taken = sendable(taken)
        self.check_call(
            f"{name}, loaded", lambda: FSDP.optim_state_dict_to_load(*other, taken), optimizer_lines
        )

    def check_kinds(self, name, kinds, plain=None, **options):
        """The states of two models, in full and in shards."""
        for kind, words, config, of_optimizer in kinds:
            model, other = self.wrapped(plain, **options), self.wrapped(plain, **options)
            for each in (model, other):
                # FSDP1 notes in them that there is a mesh.
                FSDP.set_state_dict_type(each, kind, *copy.deepcopy((config, of_optimizer)))
            self.check_states(f"{name}, {words}", model, other)

    KINDS = (
        (FULL, "whole", FullStateDictConfig(), FullOptimStateDictConfig(offload_to_cpu=False)),
        (SHARDED, "in shards", ShardedStateDictConfig(), ShardedOptimStateDictConfig(offload_to_cpu=True)),
    )

    def test_original_parameters(self):
        first = (
            FULL,
            "whole on the first rank",
            FullStateDictConfig(rank0_only=True),
            # Offloaded from a CPU to a CPU, all entries of a state would be the last one.
            FullOptimStateDictConfig(offload_to_cpu=False, rank0_only=True),
        )
        self.check_kinds("original parameters", (*self.KINDS, first))
        model, other = self.wrapped(), self.wrapped()
        for words, without in (
            ("a short one", ["short"]),
            ("a frozen one", ["unit.frozen"]),
            ("steps in common", []),
        ):
            optimizer = self.optimizer(model, without=without)
            if not without:
                for state in optimizer.state.values():
                    state["step"] += self.rank
            later = self.optimizer(other, filled=False, without=without)
            self.check_optimizers(f"original parameters without {words}", (model, optimizer), (other, later))

    def test_flat_parameters(self):
        self.check_kinds("flat parameters", self.KINDS, Model(trained=True), use_orig_params=False)

    def test_on_meshes(self):
        mesh = init_device_mesh(self.device_type, (2,))
        self.check_kinds("on a mesh", self.KINDS[1:], device_mesh=mesh)
        pairs = init_device_mesh(self.device_type, (1, 2), mesh_dim_names=("replicate", "shard"))
        hybrid = ShardingStrategy.HYBRID_SHARD
        self.check_kinds("on two dimensions", self.KINDS, device_mesh=pairs, sharding_strategy=hybrid)

    def test_not_cut(self):
        self.check_kinds("not cut", self.KINDS, sharding_strategy=ShardingStrategy.NO_SHARD)

    def test_beside_parameters(self):
        """By names a rank keeps what it has of a parameter without a part on it; other keys stay."""
        for words, options in (("", {}), (" by names", {"is_named_optimizer": True})):
            model, other = self.wrapped(), self.wrapped()
            for each in (model, other):
                FSDP.set_state_dict_type(each, FULL, FullStateDictConfig(), FullOptimStateDictConfig())
            taken = FSDP.optim_state_dict(model, self.optimizer(model))
            taken["state"].update(beside=torch.arange(3.0), word="of all")
            later = self.optimizer(other, filled=False)
            for name, each in other.named_parameters():
                if "short" not in name or self.rank:
                    later.state[each] = {"kept": self.rank}
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                self.check_call(
                    f"beside parameters{words}",
                    lambda options=options: FSDP.optim_state_dict_to_load(other, later, taken, **options),  # noqa: B023
                    lambda found: [*optimizer_lines(found), *(str(each.message) for each in warned)],
                )

    def test_former_calls(self):
        """Of the calls that came before ``optim_state_dict``: whole, by groups, scattered, in shards."""
        model = Model(trained=True)
        sharded = self.wrapped(model, use_orig_params=False)
        optimizer = self.optimizer(sharded)
        given = [dict(each) for each in optimizer.param_groups]
        for words, options in (
            ("", {"rank0_only": False}),
            (" of the first rank", {"rank0_only": True}),
            (" by groups", {"rank0_only": False, "optim_input": given}),
        ):
            whole = self.check_call(
                f"full_optim_state_dict{words}",
                lambda options=options: FSDP.full_optim_state_dict(sharded, optimizer, **options),
                optimizer_lines,
            )
            if not words:
                full = whole
        of_shards = self.check_call(
            "sharded_optim_state_dict",
            lambda: FSDP.sharded_optim_state_dict(sharded, optimizer),
            optimizer_lines,
        )
        given_once = sendable(full)
        for name, call in (
            ("shard_full_optim_state_dict", lambda: FSDP.shard_full_optim_state_dict(full, sharded)),
            (
                "shard_full_optim_state_dict by an optimizer",
                lambda: FSDP.shard_full_optim_state_dict(full, sharded, optim=optimizer),
            ),
            (
                "shard_full_optim_state_dict by groups",
                lambda: FSDP.shard_full_optim_state_dict(full, sharded, optim_input=given),
            ),
            (
                "flatten_sharded_optim_state_dict",
                lambda: FSDP.flatten_sharded_optim_state_dict(of_shards, sharded, optimizer),
            ),
            (
                "scatter_full_optim_state_dict",
                lambda: FSDP.scatter_full_optim_state_dict(given_once if self.rank == 0 else None, sharded),
            ),
            (
                "rekey_optim_state_dict by number",
                lambda: FSDP.rekey_optim_state_dict(full, OptimStateKeyType.PARAM_ID, model),
            ),
        ):
            self.check_call(name, call, optimizer_lines)

    def test_states_that_do_not_fit(self):
        """A flat parameter's parts have the same entries, of one kind, shape and type."""
        model = Model(trained=True)
        sharded = self.wrapped(model, use_orig_params=False)
        names = [name for name, _ in model.named_parameters()]
        groups = [{"params": names, "lr": 0.5}]

        def values(name):
            return state_of(dict(model.named_parameters())[name], 2)

        for words, change in (
            ("as it is", {}),
            ("an entry less", {"average": ()}),
            ("an entry more", {"more": 1}),
            ("another shape", {"average": torch.arange(4.0)}),
            ("another type", {"average": torch.arange(7)}),
            ("a number for a tensor", {"average": 3}),
            ("a scalar for a tensor", {"average": torch.tensor(3.0)}),
            ("another step", {"step": torch.tensor(9.0)}),
            ("a step of another type", {"step": torch.tensor(2)}),
            ("a number for a step", {"step": 2}),
            ("a tensor for a step", {"step": torch.arange(3.0)}),
            ("another word", {"word": "other"}),
            ("a number for a word", {"word": 3}),
            ("a tensor for a number", {"number": torch.arange(3.0)}),
            ("a scalar for a number", {"number": torch.tensor(7)}),
            ("something for nothing", {"nothing": 3}),
            ("a tensor for nothing", {"nothing": torch.arange(7.0)}),
            ("nothing for a tensor", {"average": None}),
            ("nothing for a step", {"step": None}),
            ("nothing for a word", {"word": None}),
            ("none at all", None),
        ):
            state = {name: values(name) for name in names}
            if change is None:
                del state["unit.bias"]
            else:
                state["unit.bias"].update(change)
                state["unit.bias"] = {k: v for k, v in state["unit.bias"].items() if v != ()}
            self.check_call(
                f"flattened with {words}",
                lambda state=state: FSDP.shard_full_optim_state_dict(
                    {"state": state, "param_groups": groups}, sharded
                ),
                lambda found: [line for line in optimizer_lines(found) if line.startswith("1")],
            )


if __name__ == "__main__":
    run_tests()
