"""What DDPOptimizer makes of models, and how it is written down: buckets, pieces, what their compiler gets.

Owns the models for this, whose parameters are bytes, and the limits of buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.backends.distributed import DDPOptimizer
from torch._guards import TracingContext
from torch.nn.functional import linear
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

WIDTH = 4


def _weight(*shape: int, dtype: torch.dtype = torch.float32, trained: bool = True) -> nn.Parameter:
    return nn.Parameter(torch.rand(*shape or (WIDTH, WIDTH), dtype=dtype), requires_grad=trained)


class Model(nn.Module):
    """Parameters of odd sizes, and a forward by name."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.first, self.second, self.third = _weight(), _weight(), _weight()
        self.bias = _weight(3)
        self.wide = _weight(5, dtype=torch.float64)
        self.kept = _weight(trained=False)
        self.upper = nn.Parameter(torch.rand(8, WIDTH)[:WIDTH])
        self.register_buffer("seen", torch.zeros(WIDTH, WIDTH))
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH, bias=False))
        self.does = forward

    def forward(self, x: Tensor) -> Any:
        return self.does(self, x)


def in_a_row(own: Any, x: Tensor) -> Any:
    return ((x @ own.first).relu() @ own.second).sin() @ own.third


def by_methods(own: Any, x: Tensor) -> Any:
    return x.mm(own.first.t()).add(own.second.t()).mul(own.bias.sum()) @ own.third


def in_layers(own: Any, x: Tensor) -> Any:
    return own.layers(x.exp()) @ own.first


def used_twice(own: Any, x: Tensor) -> Any:
    return ((x @ own.first) @ own.second) @ own.first


def not_trained(own: Any, x: Tensor) -> Any:
    return ((x @ own.kept) @ own.first + own.seen) @ own.second


def of_odd_sizes(own: Any, x: Tensor) -> Any:
    return (x @ own.upper + own.bias.sum()) * own.wide.mean().float() @ own.first


def after_a_preamble(own: Any, x: Tensor) -> Any:
    return (x.sin().cos().exp() @ own.first).sum() + (x @ own.second).sum()


def written_at_the_end(own: Any, x: Tensor) -> Any:
    y = x @ own.first
    y.add_(own.second)
    y.mul_(2)
    own.seen.add_(own.third.detach())
    return y


def many_results(own: Any, x: Tensor) -> Any:
    y = x @ own.first
    z = y @ own.second
    return y, [z, z.t()], {"third": z @ own.third}


def of_symbols(own: Any, x: Tensor) -> Any:
    return (x @ own.first * x.size(0)) @ own.second.view(-1, WIDTH)


def recomputed(own: Any, x: Tensor) -> Any:
    def region(x: Tensor) -> Tensor:
        return (x @ own.first).sin() @ own.second

    return checkpoint(region, x, use_reentrant=False) @ own.third


def by_keyword(own: Any, x: Tensor) -> Any:
    return linear(linear(x, weight=own.first), own.second, own.kept[0]) @ own.third


MODELS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        in_a_row,
        by_methods,
        in_layers,
        used_twice,
        not_trained,
        of_odd_sizes,
        after_a_preamble,
        written_at_the_end,
        many_results,
        of_symbols,
        recomputed,
        by_keyword,
    )
}

#: More than any model here has.
ALL_IN_ONE = (2**20, None)
#: A bucket's limit, and that of the first one (None: DDP's), in bytes.
LIMITS: tuple[tuple[int, int | None], ...] = (
    (1, 1),
    (64, 64),
    (65, 64),
    (100, 30),
    (129, 128),
    (2**20, None),
)


def chosen() -> list[tuple[str, int, int | None]]:
    """Each model with three of the limits, others in turn."""
    return [
        (model, *LIMITS[(number * 2 + turn) % len(LIMITS)])
        for number, model in enumerate(MODELS)
        for turn in range(3)
    ]


def lines_of(model: str, limit: int, first: int | None) -> list[str]:
    """The buckets and pieces of a model that is compiled by these limits and called."""
    lines: list[str] = []
    torch._dynamo.reset()
    torch.manual_seed(0)

    def compiler(graph: Any, inputs: Any) -> Any:
        lines.extend(_piece(graph, inputs))
        return graph.forward

    optimizer = DDPOptimizer(limit, compiler, first)

    def split(graph: Any, inputs: Any) -> Any:
        compiled = optimizer.compile_fn(graph, inputs)
        lines.extend(map(_bucket, optimizer.buckets))
        lines.append(f"whole: {' '.join(node.name for node in graph.graph.nodes)}")
        if compiled is not graph.forward and hasattr(compiled, "graph"):
            lines.append(f"joined: {'; '.join(_code(compiled))}")
            lines.append(f"context: {vars(TracingContext.get().ddp_optimizer_ctx)}")
        return compiled

    module = Model(MODELS[model])
    x = torch.rand(WIDTH, WIDTH, requires_grad=True)
    plain = module(x)
    module.seen.zero_()
    found = torch.compile(module, backend=split, dynamic=model == "of_symbols")(x)
    lines.append(f"as in eager: {tree_map(torch.allclose, found, plain)}")
    return lines


def _bucket(bucket: Any) -> str:
    extended = bucket.opcount_increased_to_capture_external_output
    assert len(bucket.param_ids) == len(bucket.params)
    words = [f"bucket of {bucket.size}: {' '.join(map(_short, bucket.params))};", *map(str, bucket.nodes)]
    if extended:
        words.append(f"; {extended} more after {bucket.paramsize_before_opcount_increase}")
    return " ".join(words)


def _short(name: str) -> str:
    return name.removeprefix("L_self_").replace("modules_", "").replace("parameters_", "")


def _code(graph: Any) -> Iterator[str]:
    for line in graph.code.strip().splitlines()[1:]:
        if words := line.partition(";")[0].partition("#")[0].strip():
            yield words


def _piece(graph: Any, inputs: Any) -> Iterator[str]:
    """What the compiler of a piece is given: code, inputs with their sources, and what goes along."""
    yield f"piece {type(graph).__name__}: {'; '.join(_code(graph))}"
    for node, given in zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True):
        source = getattr(node, "_dynamo_source", "none")
        kind = f"{type(given).__name__}"
        if isinstance(given, Tensor):
            kind += f" {tuple(map(str, given.shape))} {given.requires_grad}".replace("'", "")
        yield f"  {node.name}: {kind} from {source.name if hasattr(source, 'name') else source}"
    sources = getattr(graph, "_param_name_to_source", None) or {}
    yield f"  knows {' '.join(sorted(graph.meta))}, sources of {len(sources)}: {sources.get('self.first')}"
    if (reason := getattr(graph, "compile_subgraph_reason", None)) is not None:
        yield f"  as of {reason.reason.split(' (')[0]} {reason.graph_break} {len(reason.user_stack)}"
