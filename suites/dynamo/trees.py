"""Random trees of small modules that can say what they do, step by step, without anybody tracing them.

Each module has, beside its ``forward``, a ``walk`` that tells a ``Trace`` which operators the forward runs,
with which parameters, and whose results they read: the model's description for ``expected_buckets``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import linear

from harness.graphs import MODEL_OUTPUT, DdpParameter, ForwardOperator

#: Rows have this many numbers everywhere, so that any module fits to any other.
WIDTH = 4
#: What a step reads when it reads the model's input.
INPUT = None


@dataclass
class Trace:
    """The steps of a forward, as the modules tell them."""

    weights: dict[int, DdpParameter]
    steps: list[tuple[tuple[DdpParameter, ...], tuple[DdpParameter, ...]]] = field(default_factory=list)
    readers: list[list[int]] = field(default_factory=list)

    def run(
        self, *reads: int | None, uses: Sequence[nn.Parameter] = (), aside: Sequence[nn.Parameter] = ()
    ) -> int:
        """Tell an operator that reads other steps' results and uses parameters; return its own step."""
        index = len(self.steps)
        self.steps.append(tuple(tuple(self.weights[id(each)] for each in some) for some in (uses, aside)))
        self.readers.append([])
        for step in reads:
            if step is not INPUT:
                self.readers[step].append(index)
        return index

    def finished(self, result: int | None) -> list[ForwardOperator]:
        """The steps of a model that returns the result of one of them."""
        if result is not INPUT:
            self.readers[result].append(MODEL_OUTPUT)
        return [
            ForwardOperator(uses, aside, tuple(readers))
            for (uses, aside), readers in zip(self.steps, self.readers, strict=True)
        ]


class Dense(nn.Module):
    """A layer: one operator with a weight and perhaps a bias."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 2)
        self.bias = nn.Parameter(torch.randn(WIDTH)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def walk(self, trace: Trace, x: int | None) -> int | None:
        return trace.run(x, uses=[self.weight] if self.bias is None else [self.weight, self.bias])


class ByMethod(nn.Module):
    """A parameter of any size and dtype, which is used by one of its methods."""

    def __init__(self, count: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.randn(count, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift.sum()

    def walk(self, trace: Trace, x: int | None) -> int | None:
        return trace.run(x, trace.run(uses=[self.shift]))


class Twice(nn.Module):
    """A parameter that is both arguments of an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.root * self.root

    def walk(self, trace: Trace, x: int | None) -> int | None:
        return trace.run(x, trace.run(uses=[self.root, self.root]))


class ByKeyword(nn.Module):
    """A weight that an operator is given by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 2)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, weight=self.weight)

    def walk(self, trace: Trace, x: int | None) -> int | None:
        return trace.run(x, aside=[self.weight])


class InList(nn.Module):
    """Two parameters that an operator is given as a list."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(WIDTH))
        self.second = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.stack([self.first, self.second]).mean(0)

    def walk(self, trace: Trace, x: int | None) -> int | None:
        stacked = trace.run(aside=[self.first, self.second])
        return trace.run(x, trace.run(stacked))


class Noted(nn.Module):
    """Writes something of its parameter into a buffer, which nobody reads."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.randn(count))
        self.register_buffer("note", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.note.copy_(self.value.detach().mean())
        return x

    def walk(self, trace: Trace, x: int | None) -> int | None:
        trace.run(trace.run(trace.run(uses=[self.value])))
        return x


class Plain(nn.Module):
    """An operator without parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin()

    def walk(self, trace: Trace, x: int | None) -> int | None:
        return trace.run(x)


class Chain(nn.Module):
    """Modules one after the other, some perhaps twice. ``residual``: the input is added in the end."""

    def __init__(self, parts: Sequence[nn.Module], residual: bool) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for part in self.parts:
            y = part(y)
        return x + y if self.residual else y

    def walk(self, trace: Trace, x: int | None) -> int | None:
        y = x
        for part in self.parts:
            y = part.walk(trace, y)
        return trace.run(x, y) if self.residual else y


def steps_of(model: Chain) -> list[ForwardOperator]:
    """The steps of a model, by its own account. Parameters are called by their names in the model."""
    weights = {
        id(each): DdpParameter(
            name,
            each.numel() * each.element_size(),
            trainable=each.requires_grad,
            ignored=getattr(each, "_ddp_ignored", False),
        )
        for name, each in model.named_parameters()
    }
    trace = Trace(weights)
    return trace.finished(model.walk(trace, INPUT))


DTYPES = (torch.float32, torch.float16)
#: Modules that DDPOptimizer treats as documented, and those it does not.
PLAIN_LEAVES = st.one_of(
    st.builds(Dense, st.booleans()),
    st.builds(ByMethod, st.integers(1, 40), st.sampled_from(DTYPES)),
    st.builds(Noted, st.integers(1, 40)),
    st.builds(Plain),
)
ALL_LEAVES = st.one_of(PLAIN_LEAVES, st.builds(Twice), st.builds(ByKeyword), st.builds(InList))


@st.composite
def trees(draw: st.DrawFn, leaves: st.SearchStrategy[nn.Module] = ALL_LEAVES, *, tied: bool = True) -> Chain:
    """A tree of modules, whose last step is a real one; some of its parameters are frozen.

    ``tied``: the same module may stand in several places.
    """
    made = draw(st.lists(leaves, min_size=1, max_size=6))
    top: list[nn.Module] = []
    while made:
        size = draw(st.integers(1, len(made)))
        group, made = made[:size], made[size:]
        again = draw(st.lists(st.sampled_from(group), max_size=2)) if tied else []
        nested = draw(st.booleans())
        top += [Chain([*group, *again], draw(st.booleans()))] if nested else [*group, *again]
    model = Chain([*top, Plain()], residual=False)
    parameters = list(model.parameters())
    if parameters:
        for index in draw(st.sets(st.integers(0, len(parameters) - 1), max_size=2)):
            parameters[index].requires_grad = False
    return model


#: The caps of a model's buckets in bytes: of the others, and of the first.
CAPS = st.tuples(st.integers(1, 400), st.integers(1, 400)).map(lambda pair: (max(pair), min(pair)))
