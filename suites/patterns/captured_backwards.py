"""Programs whose backward passes leave something to the engine, for compiled autograd to capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from suites.patterns import hooked_backwards
from suites.patterns.hooked_backwards import leaf


class Scaled(torch.autograd.Function):
    """A function of the user's that saves a tensor and a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * factor, y * 2

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return slopes[0] * ctx.factor + x.sum(), slopes[1] * y, None


class Once(torch.autograd.Function):
    """A function whose backward is differentiable no more."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope * 3


class Refused(torch.autograd.Function):
    """A function that says that nothing of it is to become an input of the graph."""

    compiled_autograd_should_lift = False

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope * 4


def plain() -> None:
    x = leaf()
    (x.sin() * x).sum().backward()


def twice() -> None:
    x = leaf()
    for _ in range(2):
        (x * 2).sum().backward()


def other_sizes() -> None:
    for size in (3, 5, 7):
        x = leaf(size, 2)
        x.exp().sum(0).mul(2).sum().backward()


def only_inputs() -> None:
    x, y = leaf(), leaf()
    torch.autograd.grad((x * y).sin().sum(), [x])


def several_roots() -> None:
    x = leaf()
    torch.autograd.backward([x * 2, x.cos()], [torch.ones(3), torch.full((3,), 2.0)])


def other_exponents() -> None:
    x = leaf()
    for exponent in (2.5, 3.5):
        x.pow(exponent).sum().backward()


def hooks_of_tensors() -> None:
    x = leaf()
    y = x * 2
    y.register_hook(lambda slope: slope * 3)
    y.register_hook(lambda slope: None)
    x.register_hook(lambda slope: slope + 1)
    y.sin().sum().backward()


def hooks_of_nodes() -> None:
    x = leaf()
    y = (x * 2).sin()
    y.grad_fn.register_prehook(lambda slopes: (slopes[0] * 5,))
    y.grad_fn.register_hook(lambda given, taken: (given[0] * 7,))
    y.sum().backward()


def hooks_after_accumulation() -> None:
    x = leaf()

    def doubled(of: Tensor) -> None:
        assert of.grad is not None
        of.grad.mul_(2)

    x.register_post_accumulate_grad_hook(doubled)
    (x * 3).sum().backward()


def kept_gradients() -> None:
    x = leaf()
    y = x * 2
    y.retain_grad()
    y.exp().sum().backward()


def packed() -> None:
    x = leaf()
    with saved_tensors_hooks(lambda of: of.double(), lambda of: of.float()):
        y = x.sin() * x
    y.sum().backward()


def saved_elsewhere() -> None:
    x = leaf()
    with save_on_cpu():
        y = x.exp() * x
    y.sum().backward()


def own_function() -> None:
    x, y = leaf(), leaf()
    first, second = Scaled.apply(x, y, 2.5)
    (first.sum() + second.sum()).backward()


def own_function_in_part() -> None:
    x, y = leaf(), torch.rand(3)
    Scaled.apply(x, y, 1.5)[0].sum().backward()


def once_differentiable() -> None:
    Once.apply(leaf()).sum().backward()


def not_lifted() -> None:
    Refused.apply(leaf()).sum().backward()


def layers() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    for rows in (2, 5):
        model(torch.rand(rows, 3)).sum().backward()


def indices() -> None:
    table = nn.Embedding(4, 3)
    table(torch.tensor([1, 2, 1])).sum().backward()


def rare_rows() -> None:
    table = nn.Embedding(4, 3, sparse=True)
    table(torch.tensor([1, 2, 1])).sum().backward()


def views() -> None:
    x = leaf(4, 2)
    y = x.t().reshape(8)[2:]
    y.clone().mul_(2).sum().backward()


def written_in_place() -> None:
    x = leaf()
    y = x * 1
    y[0].mul_(3)
    y.sum().backward()


def kept_graph() -> None:
    x = leaf()
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()


def second_order() -> None:
    x = leaf()
    (slope,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    slope.sum().backward()


def missing_slopes() -> None:
    x = leaf()
    one, other = x.chunk(2)
    one.sum().backward()
    del other


def norms() -> None:
    x, weight = leaf(2, 4), leaf(4)
    nn.functional.layer_norm(x, (4,), weight).sum().backward()


def compiled_forward() -> None:
    x, y = leaf(), leaf()
    function = torch.compile(lambda x, y: (x.sin() * y, y.exp()), backend="aot_eager")
    one, other = function(x, y)
    (one * other).sum().backward()


def compiled_forward_of_sizes() -> None:
    function = torch.compile(lambda x: x.sin() * x.size(0), backend="aot_eager", dynamic=True)
    for size in (3, 4):
        function(leaf(size)).sum().backward()


PROGRAMS: tuple[Callable[[], None], ...] = (
    plain,
    twice,
    other_sizes,
    only_inputs,
    several_roots,
    other_exponents,
    hooks_of_tensors,
    hooks_of_nodes,
    hooks_after_accumulation,
    kept_gradients,
    packed,
    saved_elsewhere,
    own_function,
    own_function_in_part,
    once_differentiable,
    not_lifted,
    layers,
    indices,
    rare_rows,
    views,
    written_in_place,
    kept_graph,
    second_order,
    missing_slopes,
    norms,
    compiled_forward,
    compiled_forward_of_sizes,
    *hooked_backwards.PROGRAMS,
)
