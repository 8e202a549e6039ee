"""Programs whose backward passes have many hooks, several writes, checks for NaN, or are not compiled."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._dynamo import compiled_autograd


def leaf(*shape: int) -> Tensor:
    """A tensor of three numbers, or of that shape, that wants a gradient."""
    return torch.rand(*shape or (3,), requires_grad=True)


def many_hooks() -> None:
    x, y = leaf(), leaf()
    z = x * y
    w = z.sin() + y
    for each in (x, y):
        each.register_post_accumulate_grad_hook(lambda of: None)
        each.register_post_accumulate_grad_hook(lambda of: of.grad.mul_(2))
    for each in (z, w):
        each.register_hook(lambda slope: slope * 2)
        each.grad_fn.register_prehook(lambda slopes: (slopes[0] + 1,))
        each.grad_fn.register_hook(lambda given, taken: None)
    (w * z).sum().backward()


def hooks_of_accumulation() -> None:
    x = leaf()
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_prehook(lambda slopes: (slopes[0] * 2,))
    node.register_hook(lambda given, taken: None)
    x.register_post_accumulate_grad_hook(lambda of: None)
    (x * 3).exp().sum().backward()


def hooks_of_several_slopes() -> None:
    x = leaf(4)
    one, other = x.exp().chunk(2)
    one.grad_fn.register_prehook(lambda slopes: (slopes[0] * 2, slopes[1] * 3))
    one.grad_fn.register_hook(lambda given, taken: (given[0] + 1,))
    (one * other).sum().backward()


def called_back() -> None:
    x = leaf()

    def later(slope: Tensor) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(lambda: None)

    x.register_hook(later)
    x.cos().sum().backward()


def several_writes() -> None:
    x, y = leaf(4), leaf(2)
    z = x * 1
    z[:2].copy_(y)
    z[1:].mul_(z[0])
    z.sin().sum().backward()


def no_rows() -> None:
    x = leaf(0, 3)
    torch.cat([x, leaf(2, 3)]).exp().sum().backward()


def not_compiled() -> None:
    x = leaf()
    with compiled_autograd._disable():
        x.sin().sum().backward()
    x.cos().sum().backward()


def in_eager_stance() -> None:
    x = leaf()
    with torch.compiler.set_stance("force_eager"):
        x.sin().sum().backward()


def watched_for_nan() -> None:
    x = leaf()
    with torch.autograd.detect_anomaly():
        x.sin().sum().backward()
        torch.autograd.grad(x.exp().sum(), [x])


def nan_in_a_gradient() -> None:
    x, y = torch.zeros(3, requires_grad=True), leaf()
    with torch.autograd.detect_anomaly():
        (x.sqrt() * 0 + y).sum().backward()


def nan_in_what_is_asked_for() -> None:
    x, y = torch.zeros(3, requires_grad=True), leaf()
    with torch.autograd.detect_anomaly():
        torch.autograd.grad((x.sqrt() * 0 * y).sum(), [y, x])


def compiled_twice() -> None:
    x, y = leaf(), leaf()
    function = torch.compile(lambda x, y: (x.sin() * y, y.exp() + x.detach()), backend="aot_eager")
    for turn in range(2):
        one, other = function(x, y)
        one.register_hook(lambda slope: slope * 2)
        (one * other).sum().backward(retain_graph=turn == 0)


PROGRAMS: tuple[Callable[[], None], ...] = (
    many_hooks,
    hooks_of_accumulation,
    hooks_of_several_slopes,
    called_back,
    several_writes,
    no_rows,
    not_compiled,
    in_eager_stance,
    watched_for_nan,
    nan_in_a_gradient,
    nan_in_what_is_asked_for,
    compiled_twice,
)
