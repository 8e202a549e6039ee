"""FSDP2's options as drawn values, and what one process computes that does what they say for all ranks.

The reference has each rank's batches go through a copy of the plain model in the precision of the policy,
adds up gradients where and as the policy says, and averages them in the precision of the reduction. No
collective and nothing of FSDP is in it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from torch.distributed.tensor import Shard
from torch.nn.functional import mse_loss

from suites.fsdp.models import Net

#: The parameter that options may have FSDP ignore.
IGNORED = "scale"


class ScaledNet(Net):
    """A ``Net`` whose output is scaled by a parameter of the root, of any precision."""

    def __init__(self, blocks: int = 2) -> None:
        super().__init__(blocks)
        self.scale = nn.Parameter(torch.tensor([0.5, 1.0, 1.5, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


@dataclass(frozen=True, slots=True)
class Options:
    """How a model is sharded and trained.

    ``blocks``: each block is a unit of its own. ``batches`` go into one step: with ``syncs`` the gradients
    of each are reduced, else those of all at the last. ``columns``: matrices are cut by columns. ``factor``:
    what sums of gradients are divided by, None for the number of ranks. ``keeps``: gradients are set to zero,
    not to None.
    """

    param: torch.dtype | None = None
    reduce: torch.dtype | None = None
    output: torch.dtype | None = None
    batches: int = 1
    syncs: bool = True
    blocks: bool = False
    reshard_after_forward: bool | None = None
    reshard_after_backward: bool = True
    ignores: bool = False
    offloads: bool = False
    columns: bool = False
    factor: float | None = None
    keeps: bool = False

    def of(self, model: nn.Module, *, root: bool) -> dict[str, Any]:
        """The arguments of ``fully_shard`` for ``model``; what a block gives goes on in low precision."""
        output = self.output if root else None
        return {
            "mp_policy": MixedPrecisionPolicy(self.param, self.reduce, output),
            "offload_policy": CPUOffloadPolicy(pin_memory=False) if self.offloads else OffloadPolicy(),
            "reshard_after_forward": self.reshard_after_forward,
            "ignored_params": {p for n, p in model.named_parameters() if n == IGNORED and self.ignores},
            "shard_placement_fn": (lambda p: Shard(1) if p.ndim == 2 else None) if self.columns else None,
        }

    @property
    def given(self) -> torch.dtype:
        """The dtype of the model's output; an ignored scale is in float32, and makes the product so."""
        computed = torch.float32 if self.ignores or self.param is None else self.param
        return self.output or computed

    def dim(self, whole: Tensor) -> int:
        """The dimension along which a parameter is cut."""
        return 1 if self.columns and whole.ndim == 2 else 0


def options() -> st.SearchStrategy[Options]:
    """All options, each by itself."""
    low = st.sampled_from((None, torch.bfloat16))
    either = st.booleans()
    return st.builds(
        Options,
        param=low,
        reduce=st.sampled_from((None, torch.float32, torch.bfloat16)),
        output=st.sampled_from((None, torch.float32)),
        batches=st.sampled_from((1, 2, 3)),
        syncs=either,
        blocks=either,
        reshard_after_forward=st.sampled_from((None, True, False)),
        reshard_after_backward=either,
        ignores=either,
        offloads=either,
        columns=either,
        factor=st.sampled_from((None, None, 1.0, 5.0)),
        keeps=either,
    )


def loss_of(output: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error in float32."""
    return mse_loss(output.float(), targets)


class Alone:
    """One process that trains what all ranks train, by ``options``; ``plain`` holds the parameters."""

    def __init__(self, model: nn.Module, options: Options, world_size: int) -> None:
        self.plain = copy.deepcopy(model)
        #: Each rank's own copy of what FSDP ignores.
        self.ignored = [copy.deepcopy(dict(model.named_parameters())[IGNORED]) for _ in range(world_size)]
        self._options = options
        self._world_size = world_size

    def gradients(self, rank: int, batches: Sequence[Sequence[tuple[Tensor, Tensor]]]) -> dict[str, Tensor]:
        """What the gradients of a step are on a rank; ``batches`` are each rank's inputs and targets."""
        each = [self._of_rank(number, part) for number, part in enumerate(batches)]
        found = {}
        for name, parameter in self.plain.named_parameters():
            if name == IGNORED and self._options.ignores:
                found[name] = sum(each[rank][name])
                continue
            reductions = zip(*(grads[name] for grads in each), strict=True)
            found[name] = sum(self._reduced(parts).to(parameter.dtype) for parts in reductions)
        return found

    def _of_rank(self, rank: int, batches: Sequence[tuple[Tensor, Tensor]]) -> dict[str, list[Tensor]]:
        """A rank's gradients by name, one for each time that they are reduced."""
        found: dict[str, list[Tensor]] = {}
        for inputs, targets in batches:
            low = self._low(rank)
            loss_of(low(inputs.to(self._options.param or inputs.dtype)), targets).backward()
            for name, parameter in low.named_parameters():
                found.setdefault(name, []).append(parameter.grad)
        if not self._options.syncs:
            found = {
                name: grads if name == IGNORED and self._options.ignores else [self._added(grads)]
                for name, grads in found.items()
            }
        return found

    def _low(self, rank: int) -> nn.Module:
        """A copy of the model as a rank computes with it."""
        model = copy.deepcopy(self.plain)
        ignored = self.ignored[rank]
        if self._options.param is not None:
            model.to(self._options.param)
        if self._options.ignores:
            model.scale = nn.Parameter(ignored.detach().clone())
        return model

    def _added(self, grads: Sequence[Tensor]) -> Tensor:
        """Gradients that are added up before they are reduced, in the precision of the reduction."""
        total = grads[0].to(self._options.reduce or grads[0].dtype)
        for grad in grads[1:]:
            total += grad
        return total

    def _reduced(self, parts: Sequence[Tensor]) -> Tensor:
        dtype = self._options.reduce or parts[0].dtype
        total = sum(part.to(dtype) for part in parts)
        return total / (self._world_size if self._options.factor is None else self._options.factor)
