"""What the expressions of ``graph_call_expressions.py`` use: small graphs, and settings around a call."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._dynamo import compiled_autograd
from torch._dynamo.source import ConstantSource
from torch._functorch import config, partitioners
from torch._functorch._aot_autograd import autograd_cache, graph_compile, utils
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomKnapsackSolver, CustomRuntimeEstimator
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.checkpoint import CheckpointPolicy

from suites.aot.base import ramp
from suites.aot.called import fake, graph, unary

aten = torch.ops.aten
#: What stands for a gradient that is none.
NAN = math.nan
MUST = {"recompute": CheckpointPolicy.MUST_RECOMPUTE}


def node(build: Callable[[fx.Graph], fx.Node], **meta: Any) -> fx.Node:
    """One node, with what is known of it."""
    made = build(fx.Graph())
    made.meta.update(meta)
    return made


def tagged(found: fx.GraphModule) -> list[str]:
    """What partitioners are to do with nodes."""
    return [f"{each.name}:{each.meta['recompute']}" for each in found.graph.nodes if "recompute" in each.meta]


def compiler() -> compiled_autograd.AutogradCompilerInstance:
    """An instance that captures nothing yet."""
    return compiled_autograd.AutogradCompilerInstance(lambda found: found)


def traced(build: Callable[[fx.Graph], Any]) -> compiled_autograd.AutogradCompilerInstance:
    """An instance whose captured graph is that."""
    made = compiler()
    made.fx_tracer.graph = graph(build).graph
    return made


def placeholders(made: fx.Graph, *names: str) -> list[fx.Node]:
    """The inputs that a captured graph has, or those names."""
    return [made.placeholder(name) for name in names or compiled_autograd._graph_placeholders]


def names_of(found: Any) -> list[str]:
    """The nodes of an instance's graph, with the arguments of those that take an item."""
    nodes = found.fx_tracer.graph.nodes
    return [f"{each.name}{list(each.args[1:])}" if "getitem" in each.name else each.name for each in nodes]


def copied(**metas: dict[str, Any]) -> list[str]:
    """What a backward's nodes know of the forward's: of a graph, and of one within it, with what is known."""
    inner = graph(lambda made: unary(made, aten.tan.default, start="inner"), **metas)
    found = graph(lambda made: unary(made, aten.sin.default, aten.cos.default, aten.exp.default), **metas)
    found.inner, found.layer = inner, torch.nn.Identity()
    utils.copy_fwd_metadata_to_bw_nodes(found)
    known = [each for one in (found, inner) for each in one.graph.nodes if "seq_nr" in each.meta]
    return [f"{each.name} {sorted((name, str(of)) for name, of in each.meta.items())}" for each in known]


class Items:
    """Calls that take items of those numbers of a node."""

    def __init__(self, *keys: Any) -> None:
        self.keys = keys

    def __call__(self, made: fx.Graph, start: fx.Node) -> list[fx.Node]:
        return [made.call_function(operator.getitem, (start, key)) for key in self.keys]


def calls(target: Any, *arguments: Any, **meta: Any) -> fx.Node:
    """A node that calls that."""
    return node(lambda made: made.call_function(target, arguments), **meta)


def sine(**meta: Any) -> fx.Node:
    """The sine of an input."""
    return node(lambda made: made.call_function(aten.sin.default, (made.placeholder("x"),)), **meta)


def given(**meta: Any) -> fx.Node:
    """An input."""
    return node(lambda made: made.placeholder("x"), **meta)


def called_on(made: fx.Graph, name: str, target: Any) -> list[fx.Node]:
    """A captured graph's inputs, and a call on the one of that name, or its items."""
    [start] = [each for each in placeholders(made) if each.name == name]
    if isinstance(target, Items):
        return target(made, start)
    return [made.call_function(target, (start,))]


def accumulated(made: fx.Graph, target: Any, other: str | None = None) -> list[fx.Node]:
    """A graph that accumulates gradients of what a call on its first input gives, or on another one."""
    start = made.placeholder("inputs")
    if other is not None:
        start = made.placeholder(other)
    found = target(made, start) if isinstance(target, Items) else [made.call_function(target, (start,))]
    return [
        made.call_function(compiled_autograd.call_accumulate_grad, (each, None, 3, False)) for each in found
    ]


def after(name: str, build: Callable[[fx.Graph], Any]) -> Any:
    """What a method of an instance gives, and the nodes that it leaves."""
    found = traced(build)
    return getattr(found, name)(), names_of(found)


def hooks_moved(name: str, kind: str) -> list[str]:
    """The nodes when hooks of a kind, which stand at the end, have been put into order."""

    def build(made: fx.Graph) -> fx.Node:
        inputs, *_ = placeholders(made)
        first, second, third = Items(0, 1, 2)(made, inputs)
        grad = made.call_function(compiled_autograd.call_accumulate_grad, (first, None, third, True))
        made.call_function(aten.cos.default, (second,))
        hooks = [made.call_function(operator.getitem, (inputs, number)) for number in (5, 6)]
        calls = [
            made.call_function(compiled_autograd.call_hook, (hook, first), {"hook_type": kind})
            for hook in hooks
        ]
        taken = [made.call_function(operator.getitem, (call, 0)) for call in calls]
        made.call_function(aten.exp.default, (grad,))
        return made.call_function(aten.add.Tensor, (taken[0], taken[1]))

    found = traced(build)
    getattr(found, name)()
    return names_of(found)


def checked(accumulates: bool, before: Any, later: Any, out: list[float]) -> Any:
    """What is said of gradients: those that an input had and has, and those that are given."""
    found = compiled_autograd.NaNChecker(accumulates)
    found.params_indices, found.output_names = [1], ["first", "second"]
    given = ramp(2)
    given.grad = None if before is None else torch.full((2,), float(before))
    found.prep_with_inputs((ramp(3), given))
    given.grad = None if later is None else torch.full((2,), float(later))
    return found.check(tuple(torch.tensor([float(each)]) for each in out)), sorted(found.params_to_check)


def renamed(found: fx.GraphModule) -> Any:
    """The names of inputs while a key is made of a graph, and afterwards."""
    before = found.code
    with autograd_cache.normalize_placeholder_names(found):
        during = [(each.name, each.target) for each in found.graph.find_nodes(op="placeholder")]
    return during, [(each.name, each.target) for each in found.graph.nodes][:1], before == found.code


def configured(inductor: dict[str, Any], call: Callable[[], Any], **functorch: Any) -> Any:
    """What a call gives under settings of inductor and of AOTAutograd."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(inductor_config.patch(inductor))
        stack.enter_context(config.patch(**functorch))
        return call()


def saved_of_effects(build: Callable[[fx.Graph], Any], **metas: dict[str, Any]) -> list[str]:
    """The nodes that have to be saved, since their operator does something besides."""
    found = graph(build, **metas)
    partitioners.force_save_effectful_ops(found)
    return tagged(found)


class Estimator(CustomRuntimeEstimator):
    """One of a name."""

    def __init__(self, name: Any) -> None:
        self.name = name

    def __call__(self, node: fx.Node) -> float:
        return 5.0

    def uuid(self) -> Any:
        return self.name


class Solver(CustomKnapsackSolver):
    """One of a name."""

    def __init__(self, name: Any) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def uuid(self) -> Any:
        return self.name


def with_hooks(found: fx.GraphModule, pack: fx.GraphModule, unpack: fx.GraphModule) -> fx.GraphModule:
    """A graph that has hooks of saved tensors."""
    found.saved_tensors_hooks_pack_0, found.saved_tensors_hooks_unpack_0 = pack, unpack
    return found


def symbol() -> torch.SymInt:
    """A size that is a symbol."""
    env = ShapeEnv()
    return env.create_symintnode(env.create_symbol(5, ConstantSource("s")), hint=5)


NAMES = {
    **{each.__name__.rpartition(".")[2]: each for each in (autograd_cache, compiled_autograd, graph_compile)},
    "operator": operator,
    "partitioners": partitioners,
    "MUST": MUST,
    "NAN": NAN,
    "items": Items,
    "CheckpointPolicy": CheckpointPolicy,
    **{
        each.__name__: each
        for each in (fake, ramp, graph, node, unary, calls, sine, given, called_on, accumulated)
    },
    **{
        each.__name__: each for each in (tagged, compiler, traced, placeholders, names_of, after, hooks_moved)
    },
    **{
        each.__name__: each
        for each in (
            saved_of_effects,
            copied,
            checked,
            renamed,
            configured,
            Estimator,
            Solver,
            with_hooks,
            symbol,
        )
    },
}
