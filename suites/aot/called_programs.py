"""What expressions about programs use: what is found out of one before it has a graph, and behind its cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func
from torch import Tensor, nn
from torch._functorch import config as functorch_config
from torch._functorch import partitioners
from torch._functorch._aot_autograd import (
    autograd_cache,
    collect_metadata_analysis,
    frontend_utils,
    functional_utils,
    graph_capture_wrappers,
    graph_compile,
)
from torch._functorch._aot_autograd.descriptors import PlainAOTInput, PlainAOTOutput
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx import symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from suites.aot.base import ramp
from suites.aot.called import FAKE, fake, graph, metadata, unary
from suites.aot.called_joints import joint, shown
from suites.aot.called_wrappers import aot_config, recorded, value_text
from suites.aot.decisions import kind
from suites.aot.wrappers import text


class Viewed(torch.autograd.Function):
    """A function of the user's that gives a view of its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view(-1)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope.view(2, 3)


def leaf() -> Tensor:
    """A fake matrix that wants a gradient."""
    return fake(2, 3).requires_grad_()


def parameter() -> Tensor:
    """A fake parameter."""
    return nn.Parameter(fake(2, 3))


def found(program: Callable[..., Any], *inputs: Any, **options: Any) -> str:
    """What is found out about a program and its inputs, before it is traced."""
    given = {"keep_input_mutations": True, **options}
    collect = collect_metadata_analysis.run_functionalized_fw_and_collect_metadata(
        lambda *args: list(program(*args)),
        flat_args_descs=[PlainAOTInput(number) for number in range(len(inputs))],
        **given,
    )
    was, dtype = torch.is_grad_enabled(), torch.get_autocast_dtype("cpu")
    try:
        with FAKE:
            record = collect(*inputs)
    finally:
        torch.set_grad_enabled(was)
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", dtype)
    tangents = " ".join(f"{kind(each)}{'*' if each.requires_grad else ''}" for each in record.traced_tangents)
    return f"{recorded(record)}\ntangents: {tangents}"


def tracing(outs: Sequence[Any]) -> Callable[..., Any]:
    descs = [PlainAOTOutput(number) for number in range(len(outs))]
    return lambda *args: ([of(*args) if callable(of) else of for of in outs], descs)


def said(values: Sequence[Any], inputs: Sequence[Any]) -> str:
    words = [
        f"input {next(number for number, of in enumerate(inputs) if of is each)}"
        if any(of is each for of in inputs)
        else f"{kind(each) if isinstance(each, Tensor) else text(each)}"
        for each in values
    ]
    return " ".join(words)


def outputs_with_inputs(outs: Sequence[Any], inputs: Sequence[Any], **fields: Any) -> str:
    """What a function gives whose written inputs are outputs, too."""
    descs = [PlainAOTInput(number) for number in range(len(inputs))]
    function = graph_capture_wrappers.fn_input_mutations_to_outputs(
        tracing(outs), descs, metadata(**fields), True
    )
    values, found_descs = function(*inputs)
    return f"{said(values, inputs)} | {' '.join(each.expr() for each in found_descs)}"


def prepared(outs: Sequence[Any], inputs: Sequence[Any], **fields: Any) -> str:
    """What a function gives that is made ready for autograd, and which of it has tangents."""
    descs = [PlainAOTInput(number) for number in range(len(inputs))]
    config = aot_config(disable_functionalization=fields.pop("plain", True))
    function = graph_capture_wrappers.fn_prepped_for_autograd(
        tracing(outs), descs, metadata(**fields), config
    )
    (values, wanted), (found_descs, _) = function(*inputs)
    return f"{said(values, inputs)} | {wanted} | {' '.join(each.expr() for each in found_descs)}"


def differentiated(
    outs: Sequence[Any], wanted: Sequence[bool], inputs: Sequence[Any], tangents: Sequence[Any]
) -> str:
    """The graph of outputs and gradients of a function, with the sides that its nodes are tagged with."""
    descs = [PlainAOTOutput(number) for number in range(len(outs))]

    def function(*args: Any) -> Any:
        values = [of(*args) if callable(of) else of for of in outs]
        return (values, list(wanted)), (descs, list(wanted))

    inputs_descs = [PlainAOTInput(number) for number in range(len(inputs))]
    joined = graph_capture_wrappers.create_joint(function, inputs_descs, aot_config=aot_config())
    given: list[Any] = []

    def traced(primals: Any, tangents: Any) -> Any:
        values, descs = joined(primals, tangents)
        given.append(descs)
        return values

    made = make_fx(traced)(list(inputs), list(tangents))
    lines = [
        f"{node.name}={node.target}{node.args} {node.meta.get('partitioner_tag', '')}".rstrip()
        for node in made.graph.nodes
        if node.op != "placeholder"
    ]
    said = [["" if each is None else each.expr() for each in of] for of in given[0]]
    return "\n".join((*lines, str(said)))


def donated(calls: str, saved: str, **fields: Any) -> str:
    """Which saved tensors a backward may use, and what is said of what is saved."""
    nodes = joint(calls, *fields.pop("ends", ("b", "g")), **fields.pop("metas", {}))
    forward, backward = _parts(nodes, saved)
    record, inner = metadata(num_forward=1), metadata(num_forward=1)
    counts = graph_compile._categorize_saved_tensors_for_backward(forward, backward, inner, record, 1)
    names = (
        *("num_symints_saved_for_bw", "num_opaque_objects_saved_for_bw"),
        *("num_tensors_saved_with_no_vc_check", "bw_donated_idxs", "dynamic_saved_tensors_idxs"),
    )
    said = [[getattr(of, name) for name in names] for of in (record, inner)]
    return f"{counts} {said}"


def _parts(nodes: Any, saved: str) -> Any:
    by_name = {node.name: node for node in nodes.graph.nodes}
    return partitioners._extract_fwd_bwd_modules(
        nodes, [by_name[name] for name in saved.split()], [], [], num_fwd_outputs=1
    )


def detached(outs: Sequence[bool], infos: Sequence[Any], subclasses: Any = None, **fields: Any) -> Any:
    """Which inputs are detached where a backward gives those gradients, or none."""
    made = graph(
        lambda made: tuple(
            made.placeholder(f"x{number}") if each else None for number, each in enumerate(outs)
        )
    )
    inner = metadata(**fields)
    return graph_compile._compute_indices_of_inps_to_detach(
        made, subclasses, inner, metadata(input_info=list(infos))
    )


def states(count: int) -> Any:
    """What is made of a graph that is given so many states of a backward."""
    from torch._dynamo.compiled_autograd import BackwardState

    nothing = (metadata(), None, [], None, None, None, None, None, None, [], 0)
    return graph_compile._aot_stage2c_make_autograd_function(
        aot_config(), [BackwardState() for _ in range(count)], *nothing
    )


def pickler() -> Any:
    """What makes keys of the cache."""
    return autograd_cache.AOTAutogradCachePickler(graph(unary))


def replayed(base: Tensor, target: Tensor, size: Sequence[int] | None = None) -> str:
    """What an alias is made of by the views by which it was made, beside another one's sizes."""
    with FunctionalTensorMode():
        value = functional_utils.to_fun(FAKE.from_tensor(target._base))
        view = value.view(target.shape)
    views = functional_utils.ViewMetaSequence
    meant = target if size is None else target.reshape(size)
    out = functional_utils.gen_alias_from_base(base, meant, False, views(view), replay_views=True)
    return f"{kind(out)} at {out.storage_offset()} {out.flatten().tolist()} of base {out._base is base}"


def checked_info(x: Tensor) -> None:
    """An operator that gives nothing, and is not left out either: it refuses what a factorization says."""
    torch.ops.aten._linalg_check_errors(x.detach().sum().to(torch.int32) * 0, "none", is_matrix=True)


def noting_compilers(lines: list[str]) -> dict[str, Any]:
    """Compilers that write down the graphs that they are given, and run them; and a partitioner."""

    def compiled(name: str) -> Callable[..., Any]:
        def compile_graph(made: Any, given: Sequence[Any]) -> Any:
            lines.append(f"{name} of {len(given)}: {shown(made)}")
            return make_boxed_func(made.forward)

        return compile_graph

    return {
        "fw_compiler": compiled("forward"),
        "bw_compiler": compiled("backward"),
        "inference_compiler": compiled("inference"),
        "partition_fn": partitioners.default_partition,
    }


def with_effects(program: Callable[..., Any], *inputs: Tensor, **settings: Any) -> str:
    """The graphs of a program that does something besides, called twice and differentiated, with tokens."""
    lines: list[str] = []
    function = aot_function(program, **noting_compilers(lines))
    with functorch_config.patch(**settings):
        for _ in range(2):
            result = function(*inputs)
            lines.append(f"{kind(result)} {result.sum().item():.6g}")
            if result.requires_grad:
                (slope,) = torch.autograd.grad(result.sum(), inputs[:1])
                lines.append(f"{kind(slope)} {slope.sum().item():.6g}")
    return "\n".join(lines)


def with_graph_hooks(
    program: Callable[..., Any], pack: Callable[..., Any], unpack: Callable[..., Any], *inputs: Tensor
) -> str:
    """The graphs of a program whose hooks on what is saved are graphs, and the slope by an input."""
    lines: list[str] = []
    function = aot_function(program, **noting_compilers(lines))
    with torch.autograd.graph.saved_tensors_hooks(symbolic_trace(pack), symbolic_trace(unpack)):
        result = function(*inputs)
    (slope,) = torch.autograd.grad(result.sum(), inputs[:1])
    lines.append(f"{kind(slope)} {slope.sum().item():.6g}")
    return "\n".join(lines)


def faked(inputs: Sequence[Any], ignored: bool = False, **fields: Any) -> str:
    """Which sizes of inputs are symbols when they are traced."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    found, waited = frontend_utils.process_inputs(list(inputs), aot_config(**fields), mode, env, ignored)
    return f"{' '.join(map(_described, found))} waited={waited} symbols={len(env.backed_var_to_val)}"


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    words = ["s" if isinstance(size, torch.SymInt) else str(size) for size in value.shape]
    return f"{type(value).__name__}[{','.join(words)}]"


def assigned(change: Callable[[Any], Any]) -> str:
    """What is left of attributes of a module that are assigned in an export."""
    layer = torch.nn.Linear(2, 2)
    layer.extra = torch.nn.Identity()
    layer.one, layer.other, layer.items = ramp(2), None, [ramp(1), {"a": ramp(1), "b": 3}]
    layer.extra.number = 3
    with frontend_utils._detect_attribute_assignment(layer):
        change(layer)
    return f"{value_text(layer.one)} {value_text(layer.other)} {value_text(layer.items)} {layer.extra.number}"


NAMES = {
    each.__name__: each
    for each in (Viewed, leaf, parameter, found, outputs_with_inputs, prepared, differentiated, donated)
} | {
    each.__name__: each
    for each in (
        detached,
        states,
        pickler,
        replayed,
        faked,
        assigned,
        checked_info,
        with_effects,
        with_graph_hooks,
    )
}
