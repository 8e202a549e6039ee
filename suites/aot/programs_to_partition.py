"""Programs of two matrices of 4 x 4 that give a partitioner a choice: what to save, what to compute again."""

from __future__ import annotations

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def pointwise(x, y):
    return (x.sin() * y).relu().exp().sum()


def long_chain(x, y):
    for _ in range(12):
        x = x.sin().cos()
    return x * y


def far_apart(x, y):
    first = x.sin()
    second = first
    for _ in range(4):
        second = (second @ y).cos()
    return second * first


def matrices(x, y):
    return ((x @ y).relu() @ x.t()).sigmoid()


def softmax(x, y):
    return (x.softmax(0) @ y).log_softmax(1)


def reductions(x, y):
    return (x.exp().sum(0, keepdim=True) * y).tanh(), x.mean(), x.amax(1) * y.var()


def views(x, y):
    z = x.view(2, 8).t().reshape(4, 4)[1:].expand(3, 4)
    return z * y[:3], z.permute(1, 0).unsqueeze(0).exp()


def cut_and_joined(x, y):
    one, other = x.exp().chunk(2)
    return torch.cat([other.sin(), one * y[:2]]).cos()


def stacked(x, y):
    return torch.stack([x.sin(), y, x * 2], 1).exp().select(1, 0)


def gathered(x, y):
    index = torch.arange(3).flip(0)
    return x.sin()[index] * y.exp()[index], x.gather(0, index.view(1, 3)).tan()


def embedded(x, y):
    return F.embedding(torch.arange(3).flip(0), x.tanh()) * y[:3]


def normalized(x, y):
    return F.gelu(F.layer_norm(x, (4,), y[0], y[1]))


def batch_normalized(x, y):
    return F.silu(F.batch_norm(x, None, None, training=True) * y)


def convolved(x, y):
    return F.max_pool2d(F.conv2d(x.view(1, 1, 4, 4), y.view(1, 1, 4, 4), padding=2).relu(), 2)


def attended(x, y):
    q, k = x.view(1, 1, 4, 4), y.view(1, 1, 4, 4)
    return F.scaled_dot_product_attention(q, k, (q * 2).sin())


def dropped(x, y):
    return F.dropout(x.sin(), 0.5) * y


def noisy(x, y):
    return x.sin() * torch.rand_like(y) + torch.randn(4, 4)


def chosen(x, y):
    return torch.where(y > 0.5, x.sin(), x.clamp(0.2, 0.8)), x.masked_fill(y < 0.5, 0).exp()


def sorted_rows(x, y):
    values, places = x.exp().sort(1)
    return values * y, places, x.topk(2).values.sin()


def converted(x, y):
    return (x.to(torch.bfloat16) @ y.to(torch.bfloat16)).float().exp(), x.double().sin()


def low_precision(x, y):
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x.relu(), y).float().softmax(1)


def cloned(x, y):
    return x.clone().contiguous().t().contiguous().sin() * torch.ones_like(y), torch.zeros(4) + x


def not_differentiated(x, y):
    with torch.no_grad():
        scale = x.exp().max()
    return (x / scale).sin(), (y > 0).sum()


def complex_numbers(x, y):
    return torch.view_as_real(torch.complex(x, y).exp()).sum(-1)


def triangular(x, y):
    return x.tril().cumsum(0) @ y.triu() + torch.arange(4)


def losses(x, y):
    return (
        F.cross_entropy(x.sin(), torch.arange(4)),
        F.mse_loss(x, y),
        F.smooth_l1_loss(x.exp(), y),
    )


def checkpointed(x, y):
    return checkpoint(lambda a, b: (a.sin() @ b).relu().exp(), x, y, use_reentrant=False) * x.cos()


def twice_checkpointed(x, y):
    for _ in range(2):
        x = checkpoint(lambda a, b: (a.sin() @ b).cos(), x, y, use_reentrant=False)
    return x.exp()


#: Those that are cut by all settings.
BY_SETTINGS = (far_apart, reductions, softmax, matrices, cut_and_joined, normalized, convolved, losses)
PROGRAMS = (
    *BY_SETTINGS,
    *(pointwise, long_chain, views, stacked, gathered, embedded, batch_normalized, attended, dropped, noisy),
    *(chosen, sorted_rows, converted, low_precision, cloned, not_differentiated, complex_numbers),
    *(triangular, checkpointed, twice_checkpointed),
)
