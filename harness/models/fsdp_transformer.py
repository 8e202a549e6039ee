"""``TransformerWithSharedParams``: an encoder-decoder whose output layer shares the embedding's parameter.

Sizes, module names and ``init`` are those of upstream's ``common_fsdp``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from harness.models.fsdp import (
    DEVICEInitMode,
    FSDPInitMode,
    FSDPTestModel,
    in_fsdp,
    moved_after,
    on_device,
)

_TOKENS, _WIDTH, _BATCH = 23, 16, 2
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class TransformerWithSharedParams(FSDPTestModel):
    """A transformer with buffers, a shared parameter and, with ``add_bn``, a batch norm.

    With ``deterministic`` the parameters are the same in every rank and run, and there is no dropout.
    """

    def __init__(
        self, group: dist.ProcessGroup, device_init_mode: DEVICEInitMode, add_bn: bool, deterministic: bool
    ) -> None:
        super().__init__()
        self.rank, self.world_size, self.bs = group.rank(), group.size(), _BATCH
        if deterministic:
            torch.manual_seed(0)
        self.embed_tokens = nn.Embedding(_TOKENS, _WIDTH)
        self.transformer = nn.Transformer(
            _WIDTH, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=8, dropout=0.1
        )
        self.output_proj = nn.Linear(_WIDTH, _TOKENS)
        self.output_proj.weight = self.embed_tokens.weight
        self.vocab_bias: Tensor
        self.long_buffer: Tensor
        self.register_buffer("vocab_bias", torch.ones(_WIDTH))
        self.register_buffer("long_buffer", torch.zeros(_WIDTH, dtype=torch.long))
        self.bn = nn.BatchNorm1d(_BATCH) if add_bn else nn.Identity()
        on_device(self, device_init_mode is DEVICEInitMode.DEVICE_BEFORE)
        if deterministic:
            self.eval()

    def get_input(self, device: torch.device) -> tuple[Tensor, ...]:
        """Source (6, 2) and target (4, 2) tokens, the same on every rank; seeds torch by the rank."""
        torch.manual_seed(self.rank + 1)
        source, target = (torch.arange(length * _BATCH, device=device) for length in (6, 4))
        return source.view(6, _BATCH), target.view(4, _BATCH)

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """The logits of each target token."""
        source = self.embed_tokens(src_ids)
        source = source + self.vocab_bias + self.long_buffer.to(source.dtype)
        target = self.bn(self.embed_tokens(tgt_ids))
        return self.output_proj(self.transformer(source, target))

    def get_loss(self, input: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """The summed cross entropy of the output and the target tokens."""
        logits, wanted = output.flatten(0, -2), input[1].flatten()
        return nn.functional.cross_entropy(logits, wanted, reduction="sum")

    def run_backward(self, loss: Tensor) -> None:
        """Computes the gradients of a loss."""
        loss.backward()

    @staticmethod
    def init(
        group: Any,
        fsdp_init_mode: FSDPInitMode,
        device_init_mode: DEVICEInitMode,
        fsdp_kwargs: dict[str, Any] | None = None,
        deterministic: bool = False,
        add_bn: bool = True,
    ) -> nn.Module:
        """A new model: plain, or in FSDP1 with each encoder and decoder layer in FSDP1 for itself.

        ``auto_wrap_policy`` in ``fsdp_kwargs`` replaces that policy. ``group`` may be the pair of groups of
        hybrid sharding; a single group is not given to a hybrid FSDP1, which makes its own.
        """
        first = group[0] if isinstance(group, tuple) else group
        if not isinstance(fsdp_init_mode, FSDPInitMode):
            raise ValueError(f"fsdp_init_mode is {fsdp_init_mode!r}; give a member of FSDPInitMode")
        model = TransformerWithSharedParams(first, device_init_mode, add_bn, deterministic)
        if fsdp_init_mode is FSDPInitMode.NO_FSDP:
            return model
        layers = ModuleWrapPolicy({nn.TransformerEncoderLayer, nn.TransformerDecoderLayer})
        options = {"auto_wrap_policy": layers, **(fsdp_kwargs or {})}
        makes_groups = options.get("sharding_strategy") in _HYBRID and group is first
        wrapped = in_fsdp(model, None if makes_groups else group, **options)
        return moved_after(wrapped, device_init_mode)

    def get_ignored_modules(self) -> list[nn.Module]:
        """The modules that tests tell FSDP1 to ignore."""
        return [self.transformer]
