"""Programs of two square matrices, of which the first wants a gradient, for what AOTAutograd makes of them.

They write inputs, return views of them, return what is no tensor, and give a partitioner a choice.
"""

import torch
from torch.utils.checkpoint import checkpoint


def mutated_input(x, y):
    x.detach().mul_(2)
    return x * y


def mutated_buffer(x, y):
    with torch.no_grad():
        y.add_(1)
    return (x * y).sum()


def mutated_and_returned(x, y):
    z = x.sin()
    z.mul_(y)
    return z, z.t()


def resized_view(x, y):
    y.t_()
    return x + y


def alias_of_input(x, y):
    return x.view(-1), y * x


def alias_of_intermediate(x, y):
    z = x.exp() * y
    return z.view(-1), z[0]


def input_itself(x, y):
    return x, y.cos() * x


def same_twice(x, y):
    z = x @ y
    return z, z


def none_and_number(x, y):
    return None, 3, x.sum() + y.sum()


def no_gradient(x, y):
    return x.detach() + 1, (y > 0), x.sigmoid()


def views_of_one(x, y):
    first = x[:2]
    first.detach().add_(1)
    return x[2:] * y[2:], first


def random_numbers(x, y):
    return torch.nn.functional.dropout(x, 0.5) * y


def recomputed(x, y):
    return checkpoint(lambda a, b: (a.sin() @ b).relu(), x, y, use_reentrant=False) * 2


def fused(x, y):
    for _ in range(3):
        x = (x.sin() * y).relu()
    return x.sum()


def expensive(x, y):
    return (x @ y).softmax(1).log() @ x


def reduced(x, y):
    return (x.exp().sum(0, keepdim=True) * y).tanh(), x.mean()


def normalized(x, y):
    return torch.nn.functional.layer_norm(x, (4,), y[0], y[1])


def scattered(x, y):
    index = torch.tensor([0, 2])
    return x.index_add(0, index, y[:2]).clone()[index]


def strided(x, y):
    return (x.t() * y).contiguous(), x.expand(2, 4, 4)


def in_low_precision(x, y):
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ y).float()


def other_type(x, y):
    return y.view(torch.int32), x * 2


def as_complex(x, y):
    return torch.view_as_complex(y.view(4, 2, 2)), (x + y).t()


def detached_alias(x, y):
    y.mul_(3)
    return x.detach().view(2, 8), y[1:], x * y


def in_place_on_a_view(x, y):
    y.view(-1)[3:7].zero_()
    return x + y, y.diagonal()


def strided_gradient(x, y):
    z = x.t().contiguous()
    return z.t() * y, z.expand(3, 4, 4)


PROGRAMS = (
    other_type,
    as_complex,
    detached_alias,
    in_place_on_a_view,
    strided_gradient,
    mutated_input,
    mutated_buffer,
    mutated_and_returned,
    resized_view,
    alias_of_input,
    alias_of_intermediate,
    input_itself,
    same_twice,
    none_and_number,
    no_gradient,
    views_of_one,
    random_numbers,
    recomputed,
    fused,
    expensive,
    reduced,
    normalized,
    scattered,
    strided,
    in_low_precision,
)
