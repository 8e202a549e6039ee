"""Perceptrons and other small models: the parts of which tests of sharding are made.

Names, sizes and parameter names are those of upstream's ``common_fsdp``, ``common_dtensor`` and
``common_distributed``, on which state dicts, parallel plans and expected shapes in tests rely.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._composable import checkpoint
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class MLP(nn.Module):
    """Widens rows of ``dim`` numbers by ``dim_multiplier`` and narrows them again, a ReLU after each.

    With ``with_buffer`` a random buffer of ``dim`` numbers, called ``buffer``, is added to the result.
    """

    def __init__(
        self,
        dim: int,
        device: torch.device | None = None,
        *,
        dim_multiplier: int = 4,
        bias: bool = True,
        with_buffer: bool = False,
    ) -> None:
        super().__init__()
        wide = dim * dim_multiplier
        self.in_proj = nn.Linear(dim, wide, bias, device)
        self.out_proj = nn.Linear(wide, dim, bias, device)
        self.buffer: Tensor | None
        self.register_buffer("buffer", torch.randn(dim, device=device) if with_buffer else None)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of ``dim`` numbers in, as many out."""
        narrow = self.out_proj(self.in_proj(x).relu()).relu()
        return narrow if self.buffer is None else narrow + self.buffer

    def reset_parameters(self) -> None:
        """Draws the buffer anew, after the module was made on the meta device."""
        if self.buffer is not None:
            self.buffer.normal_()


class MLPStack(nn.Sequential):
    """Three ``MLP``, the outer ones three times as wide inside, which divides by no even number of ranks.

    With ``with_seq_parallel`` a LayerNorm without bias follows them.
    """

    def __init__(self, mlp_dim: int, *, with_seq_parallel: bool = False) -> None:
        parts: list[nn.Module] = [MLP(mlp_dim, dim_multiplier=wide) for wide in (3, 4, 3)]
        norm = [nn.LayerNorm(mlp_dim, bias=False)] if with_seq_parallel else []
        super().__init__(*parts, *norm)
        self.with_seq_parallel = with_seq_parallel

    def parallelize(
        self, tp_mesh: DeviceMesh, dp_mesh: DeviceMesh, use_activation_checkpointing: bool, **fsdp_kwargs: Any
    ) -> MLPStack:
        """Shards each MLP by tensor parallelism over ``tp_mesh``, then all by FSDP2 over ``dp_mesh``.

        Changes the module in place and returns it. Activations stay DTensors between the layers, because
        their last dimension may be sharded unevenly.
        """
        parallelize_module(self, tp_mesh, self._plan())
        for part in self:
            if isinstance(part, MLP):
                if use_activation_checkpointing:
                    checkpoint(part)
                fully_shard(part, mesh=dp_mesh, **fsdp_kwargs)
        fully_shard(self, mesh=dp_mesh, **fsdp_kwargs)
        return self

    def _plan(self) -> dict[str, ParallelStyle]:
        plan: dict[str, ParallelStyle] = {}
        for number in range(3):
            plan[f"{number}.in_proj"] = ColwiseParallel(use_local_output=False)
            plan[f"{number}.out_proj"] = RowwiseParallel(use_local_output=False)
        if self.with_seq_parallel:
            plan["2.out_proj"] = RowwiseParallel(output_layouts=Shard(1))
            plan["3"] = SequenceParallel(sequence_dim=1)
        else:
            plan["2.out_proj"] = RowwiseParallel()
        return plan


class MLPModule(nn.Module):
    """Ten numbers a row to 16 and back, by ``net1`` and ``net2`` with a ReLU between.

    Seeds torch's generators with 5 before it draws its parameters: two of them are equal, on every rank.
    """

    def __init__(self, device: Any, bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.net1 = nn.Linear(10, 16, bias, device)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(16, 10, bias, device)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        hidden = self.relu(self.net1(x))
        return self.net2(hidden)

    def reset_parameters(self) -> None:
        """Draws all parameters anew, after the module was made on the meta device."""
        for layer in (self.net1, self.net2):
            layer.reset_parameters()


class MLPStacked(nn.Module):
    """``n_layers`` equal ``MLPModule`` one after another, in ``layers``."""

    def __init__(self, device: Any, n_layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MLPModule(device) for _ in range(n_layers))

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        for each in self.layers:
            x = each(x)
        return x


class DoubleLinear(nn.Module):
    """Two layers side by side, ``lin1`` and ``lin2``, with a ReLU after each.

    Returns a pair, one of each layer; without ``use_second_linear`` only the first's, and ``lin2`` is unused.
    """

    def __init__(self, dim: int, use_second_linear: bool = True) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.relu = nn.ReLU()
        self.use_second_linear = use_second_linear

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor] | Tensor:
        """Rows of ``dim`` numbers in, one such tensor or two out."""
        first = self.relu(self.lin1(x))
        return (first, self.relu(self.lin2(x))) if self.use_second_linear else first


class RMSNormPython(nn.Module):
    """The root-mean-square norm over the last dimension, written in operators of its own; no bias."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Divides each row by the root of its mean square, and multiplies by ``weight``."""
        mean_square = x.square().mean(dim=-1, keepdim=True)
        return self.weight * (x * (mean_square + self.eps).rsqrt())


class SaveForwardInputsModule(nn.Module):
    """A layer of 100 numbers in and out that notes its last input in ``forward_inputs``, keyed by itself.

    With ``cast_forward_inputs`` the input is cast to the weight's dtype, after it was noted.
    """

    def __init__(self, forward_inputs: MutableMapping[nn.Module, Tensor], cast_forward_inputs: bool) -> None:
        super().__init__()
        self.l = nn.Linear(100, 100)
        self.forward_inputs, self.cast_forward_inputs = forward_inputs, cast_forward_inputs

    def forward(self, x: Tensor) -> Tensor:
        """Notes the input and applies the layer."""
        self.forward_inputs[self] = x
        own_dtype = self.l.weight.dtype
        return self.l(x.to(own_dtype)) if self.cast_forward_inputs else self.l(x)


class SaveForwardInputsModel(nn.Module):
    """Two ``SaveForwardInputsModule``, ``c1`` and ``c2``; the whole notes its own input too."""

    def __init__(self, forward_inputs: MutableMapping[nn.Module, Tensor], cast_forward_inputs: bool) -> None:
        super().__init__()
        self.c1, self.c2 = (SaveForwardInputsModule(forward_inputs, cast_forward_inputs) for _ in range(2))
        self.forward_inputs = forward_inputs

    def forward(self, x: Tensor) -> Tensor:
        """Notes the input and applies both layers."""
        self.forward_inputs[self] = x
        return self.c2(self.c1(x))


class DummyDDP(nn.Module):
    """Holds a module in ``module`` and calls it, as DistributedDataParallel does, without communication."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's output."""
        return self.module(*args, **kwargs)
