"""What expressions about partitioners use: joint graphs that are written by hand, and cuts of them.

A graph is a text, ``"a sin primals_1; b mul.Tensor a other=primals_2"``: nodes' names, operators, arguments.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import config, partitioners
from torch._functorch._aot_autograd.descriptors import PlainAOTOutput
from torch._guards import TracingContext, tracing
from torch.utils.checkpoint import CheckpointPolicy

from suites.aot.called import FAKE, fake
from suites.aot.weighed import weighed

#: What is known of nodes, by a word.
WORDS: dict[str, dict[str, Any]] = {
    **{name: {"partitioner_tag": name} for name in ("is_forward", "is_backward")},
    **{name: {"partitioner_tag": name} for name in ("must_be_in_forward", "must_be_in_backward")},
    "save": {"recompute": CheckpointPolicy.MUST_SAVE},
    "again": {"recompute": CheckpointPolicy.MUST_RECOMPUTE, "ac_graph_id": 1},
    "later": {"recompute": CheckpointPolicy.PREFER_RECOMPUTE, "ac_graph_id": 2},
    "unchecked": {"saved_tensor_with_no_vc_check": True},
    "traced": {"stack_trace": "a line"},
    "half": {"memory_budget": 0.5},
    "budget": {"custom": {"_region_activation_memory_budget": 0.5}},
    "nothing": {"val": None},
}
#: Operators that are not of aten.
_OTHERS = {
    "getitem": operator.getitem,
    "wait": torch.ops._c10d_functional.wait_tensor.default,
    "all_reduce": torch.ops._c10d_functional.all_reduce.default,
    "python": len,
}


@functools.cache
def _opaque_kind() -> type:
    from torch._library.opaque_object import register_opaque_type
    from torch._opaque_base import OpaqueBase

    made = type("Opaque", (OpaqueBase,), {"__module__": __name__})
    register_opaque_type(made, typ="reference")
    return made


def opaque() -> Any:
    """A value that is no tensor, and of which a cache's key has the type only."""
    return _opaque_kind()()


def _operator(name: str) -> Any:
    if name in _OTHERS:
        return _OTHERS[name]
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _known(name: str, words: Any) -> dict[str, Any]:
    """What is known by words, or by a dictionary of it."""
    if isinstance(words, dict):
        return words
    return {key: of for word in words.split() for key, of in WORDS[word].items()}


def joint(calls: str, outs: str, grads: str = "", inputs: str = "", **metas: Any) -> fx.GraphModule:
    """A joint graph of matrices of 4 x 4, with its results, its gradients, and what is known of nodes."""
    made = fx.Graph()
    nodes: dict[str, Any] = {"none": None, "sizes": [4, 4], "flat": [16], "true": True}
    for name in (inputs or "primals_1 primals_2 tangents_1").split():
        nodes[name] = made.placeholder(name)
        nodes[name].meta["val"] = opaque() if name.endswith("opaque") else fake(4, 4)
    for call in filter(None, calls.split("; ")):
        name, target, *arguments = call.split()
        plain = [_argument(each, nodes) for each in arguments if "=" not in each]
        named = {
            each.partition("==")[0]: _argument(each.partition("=")[2], nodes)
            for each in arguments
            if "=" in each
        }
        nodes[name] = made.create_node("call_function", _operator(target), tuple(plain), named, name)
        nodes[name].meta["val"] = _computed(nodes[name])
    found = made.output([nodes[each] for each in f"{outs} {grads}".split()])
    found.meta["desc"] = [PlainAOTOutput(number) for number in range(len(found.args[0]))]
    for name, words in metas.items():
        nodes[name].meta.update(_known(name, words))
    for node in made.nodes:
        if node.meta.get("val", 0) is None:
            del node.meta["val"]
    return fx.GraphModule(torch.nn.Module(), made)


def _argument(word: str, nodes: dict[str, Any]) -> Any:
    return nodes[word] if word in nodes else int(word)


def _computed(node: fx.Node) -> Any:
    """What a node gives for what its inputs are known to be; a collective's result is like its input."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    if node.target in _OTHERS.values() and node.target is not operator.getitem:
        return args[0]
    with FAKE:
        return node.target(*args, **kwargs)


def shown(found: fx.GraphModule | fx.Graph) -> str:
    """A graph's nodes, its results and what these are for; a mark behind what is of the backward."""
    words = []
    for node in (found if isinstance(found, fx.Graph) else found.graph).nodes:
        args = ", ".join([*map(str, node.args), *(f"{key}={of}" for key, of in node.kwargs.items())])
        mark = "'" if node.meta.get("autograd_backward") else ""
        if node.op == "placeholder":
            words.append(f"{node.name}{'' if 'val' in node.meta else '?'}")
        elif node.op == "output":
            descs = ", ".join("" if each is None else each.expr() for each in node.meta.get("desc", ()))
            traces = [number for number, of in enumerate(node.meta.get("output_stack_traces", ())) if of]
            words.append(f"-> {args} of {descs} traces {traces}")
        else:
            words.append(f"{node.name}{mark}={getattr(node.target, '__name__', node.target)}({args})")
    return "; ".join(words)


def cut(how: str, found: fx.GraphModule, outs: int = 1, static: Any = None, **settings: Any) -> str:
    """What a joint graph is cut into: by default, by a minimal cut, or so with its network (``weighed``)."""
    partition: Callable[..., Any] = (
        partitioners.default_partition
        if how == "default"
        else partitioners.min_cut_rematerialization_partition
    )
    lines: list[str] = []
    with config.patch(**settings), weighed(lines), tracing(TracingContext(FAKE)):
        graphs = partition(found, [], num_fwd_outputs=outs, static_lifetime_input_indices=static)
    far = [f"{node}:{node.dist_from_bw}" for node in found.graph.nodes if hasattr(node, "dist_from_bw")]
    return "\n".join(
        (*map(shown, graphs), *(lines if how == "weighed" else ()), *([" ".join(far)] if far else []))
    )


def part(
    found: fx.GraphModule, inputs: str, outputs: str, side: str | None = None, ignored: bool = False
) -> str:
    """The part of a graph between nodes, for the forward or the backward."""
    nodes = {node.name: node for node in found.graph.nodes}
    ends = [[nodes.get(name) for name in names.split()] for names in (inputs, outputs)]
    descs = [PlainAOTOutput(number) for number in range(len(ends[1]))]
    made = partitioners._extract_graph_with_inputs_outputs(found.graph, *ends, descs, side, ignored)
    return shown(made)


def modules(
    found: fx.GraphModule, saved: str, symbols: str = "", opaque: str = "", outs: int = 1, **options: Any
) -> str:
    """The forward and the backward when those nodes are saved."""
    nodes = {node.name: node for node in found.graph.nodes}
    kept = [[nodes[name] for name in names.split()] for names in (saved, symbols, opaque)]
    graphs = partitioners._extract_fwd_bwd_modules(found, *kept, num_fwd_outputs=outs, **options)
    left = [" ".join(map(str, each)) for each in kept]
    return "\n".join((*map(shown, graphs), f"saved: {' | '.join(left)}"))


def classified(found: fx.GraphModule, static: Sequence[int] = (), outs: int = 1) -> str:
    """Which kinds of nodes a graph has."""
    lines: list[str] = []
    with weighed(lines):
        partitioners.classify_nodes(found, list(static), outs)
    return "\n".join(lines)


def marked(name: str, found: fx.GraphModule) -> list[str]:
    """What a function marks of a graph to be saved."""
    getattr(partitioners, name)(found)
    nodes = (node for node in found.graph.nodes if "recompute" in node.meta)
    return [f"{node} {node.meta['recompute'].name}" for node in nodes]


def reordered(found: fx.GraphModule) -> str:
    """A backward's order as autograd would have it."""
    return shown(partitioners.reordering_to_mimic_autograd_engine(found))


NAMES = {
    each.__name__: each for each in (joint, shown, cut, part, modules, classified, marked, reordered, opaque)
}
