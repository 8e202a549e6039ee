"""Small models to be run tensor-parallel, and how their layers are to be sharded."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HIDDEN, HEADS, WORDS = 8, 12, 4, 16


class Mlp(nn.Module):
    """Two layers with a nonlinearity between them; ``HIDDEN`` does not divide by eight, but by four."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, rows: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(rows)))


class NormedMlp(nn.Module):
    """The same behind a layer norm, as transformers have it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = Mlp()

    def forward(self, rows: Tensor) -> Tensor:
        return self.mlp(self.norm(rows))


class Attention(nn.Module):
    """Causal self-attention. It has as many heads as its projections have columns for, on this rank."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, rows: Tensor) -> Tensor:
        """``rows`` of shape (batch, length, ``WIDTH``)."""
        batch, length, _ = rows.shape

        def heads(projected: Tensor) -> Tensor:
            return projected.reshape(batch, length, -1, WIDTH // HEADS).transpose(1, 2)

        each = F.scaled_dot_product_attention(
            heads(self.query(rows)), heads(self.key(rows)), heads(self.value(rows)), is_causal=True
        )
        return self.out(each.transpose(1, 2).reshape(batch, length, -1))


class Speller(nn.Module):
    """Scores of the next word: an embedding, an MLP, and a projection to all words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.mlp = Mlp()
        self.scores = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        return self.scores(torch.tanh(self.mlp(self.words(words))))
