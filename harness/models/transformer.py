"""``Transformer`` and its parts: a small decoder for tests of FSDP2 and tensor parallelism.

Module names and the fields of ``ModelArgs`` are those of upstream's ``common_dtensor``, without its experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from harness.errors import UsageError


@dataclass(kw_only=True)
class ModelArgs:
    """The sizes and options of a ``Transformer``; ``dim`` must be a multiple of ``n_heads``."""

    vocab_size: int = 8
    max_seq_len: int = 16
    n_layers: int = 2
    n_heads: int = 4
    dim: int = 16
    weight_tying: bool = True
    use_attn_mask: bool = True
    dropout_p: float = 0.1
    checkpoint_activations: bool = False


class Attention(nn.Module):
    """Self-attention with ``n_heads`` heads; causal where ``use_attn_mask``. No biases.

    A tensor-parallel rank has a part of the heads: set ``n_heads`` to it where ``wq``, ``wk`` and ``wv``
    return local tensors.
    """

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        if args.dim % args.n_heads:
            raise UsageError(f"dim is {args.dim}, which {args.n_heads} heads cannot share: give a multiple")
        self.head_dim, self.n_heads = args.dim // args.n_heads, args.n_heads
        self.dropout_p, self.use_attn_mask = args.dropout_p, args.use_attn_mask
        self.resid_dropout = nn.Dropout(args.dropout_p)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(args.dim, args.dim, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Batches of sequences of ``dim`` numbers in and out."""
        batch, length = x.shape[:2]
        # By head: (batch, heads, length, head_dim).
        q, k, v = (
            project(x).view(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
            for project in (self.wq, self.wk, self.wv)
        )
        heads = functional.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout_p * self.training, is_causal=self.use_attn_mask
        )
        merged = heads.transpose(1, 2).reshape(batch, length, -1)
        return self.resid_dropout(self.wo(merged))


class FeedForward(nn.Module):
    """The two layers ``w1`` and ``w2`` of a block, with a GELU between and a dropout behind."""

    def __init__(self, dim: int, hidden_dim: int, dropout_p: float) -> None:
        super().__init__()
        self.w1, self.gelu, self.w2 = nn.Linear(dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, dim)
        self.resid_dropout = nn.Dropout(dropout_p)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of ``dim`` numbers in and out."""
        hidden = self.gelu(self.w1(x))
        return self.resid_dropout(self.w2(hidden))


class TransformerBlock(nn.Module):
    """Attention and feed-forward, each behind a LayerNorm and beside a residual connection."""

    # Upstream's blocks may hold experts; tests ask a block whether it does.
    has_experts = False

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(args.dim)
        self.attention = Attention(args)
        self.ffn_norm = nn.LayerNorm(args.dim)
        self.feed_forward = FeedForward(args.dim, 4 * args.dim, args.dropout_p)

    def forward(self, x: Tensor) -> Tensor:
        """Batches of sequences of ``dim`` numbers in and out."""
        attended = x + self.attention(self.attention_norm(x))
        return attended + self.feed_forward(self.ffn_norm(attended))


class Transformer(nn.Module):
    """A decoder over token numbers, with learnt positions.

    Tokens are (batch, length) integers with length at most ``max_seq_len``; the result has ``vocab_size``
    float32 numbers for each. With ``weight_tying`` the output layer's weight is the embedding's.
    """

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.model_args, self.max_seq_len = args, args.max_seq_len
        self.checkpoint_activations = args.checkpoint_activations
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.pos_embeddings = nn.Embedding(args.max_seq_len, args.dim)
        self.dropout = nn.Dropout(args.dropout_p)
        self.layers = nn.ModuleList(TransformerBlock(args) for _ in range(args.n_layers))
        self.norm = nn.LayerNorm(args.dim)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
        self._tie()

    def _tie(self) -> None:
        if self.model_args.weight_tying:
            self.output.weight = self.tok_embeddings.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """The next token's logits at each position; UsageError for a sequence that is too long."""
        length = tokens.shape[1]
        if length > self.max_seq_len:
            raise UsageError(f"sequences have {length} tokens, and max_seq_len is {self.max_seq_len}")
        positions = torch.arange(length, device=tokens.device)
        x = self.dropout(self.tok_embeddings(tokens) + self.pos_embeddings(positions))
        for block in self.layers:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoint_activations else block(x)
        return self.output(self.norm(x)).float()

    @staticmethod
    def parallelize(
        module: Transformer,
        tp_mesh: DeviceMesh,
        use_seq_parallel: bool,
        local_output_for_attn: bool = False,
    ) -> nn.Module:
        """Makes a Transformer tensor-parallel over ``tp_mesh``, in place, and returns it.

        With ``use_seq_parallel`` activations between blocks are sharded by sequence. With
        ``local_output_for_attn`` attention computes on plain tensors: each rank has a part of the heads.
        Without, it computes on distributed tensors, which torch 2.11 cannot on more than one rank.
        """
        parallelize_module(module, tp_mesh, _root_plan(use_seq_parallel))
        for block in module.layers:
            parallelize_module(block, tp_mesh, _block_plan(use_seq_parallel, local_output_for_attn))
            if local_output_for_attn:
                block.attention.n_heads = module.model_args.n_heads // tp_mesh.size()
        whole: dict[str, object] = {"output_layouts": Replicate()}
        if use_seq_parallel:
            whole["input_layouts"] = Shard(1)
        parallelize_module(module.output, tp_mesh, ColwiseParallel(**whole))
        # Both shard by rows, so that one parameter and one gradient serve as both.
        module._tie()
        return module


def _root_plan(by_sequence: bool) -> dict[str, ParallelStyle]:
    """How the root's own modules are parallel: embeddings by rows of the table."""

    def table(sequence_dim: int) -> ParallelStyle:
        to = Shard(sequence_dim) if by_sequence else Replicate()
        return RowwiseParallel(input_layouts=Replicate(), output_layouts=to)

    plan = {"tok_embeddings": table(1), "pos_embeddings": table(0)}  # positions have no batch dimension
    return {**plan, "norm": SequenceParallel()} if by_sequence else plan


def _block_plan(by_sequence: bool, local_heads: bool) -> dict[str, ParallelStyle]:
    """How a block's modules are parallel: the first layers by columns, the last ones by rows."""
    plan: dict[str, ParallelStyle] = {
        f"attention.{name}": ColwiseParallel(use_local_output=local_heads) for name in ("wq", "wk", "wv")
    }
    if not by_sequence:
        plan["attention.wo"], plan["feed_forward.w2"] = RowwiseParallel(), RowwiseParallel()
        return {**plan, "feed_forward.w1": ColwiseParallel()}
    for last in ("attention.wo", "feed_forward.w2"):
        plan[last] = RowwiseParallel(output_layouts=Shard(1))
    gathered = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    norms = {name: SequenceParallel() for name in ("attention_norm", "ffn_norm")}
    return {
        **plan,
        **norms,
        "attention": gathered,
        "feed_forward.w1": ColwiseParallel(input_layouts=Shard(1)),
    }
