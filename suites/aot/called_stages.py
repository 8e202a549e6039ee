"""What expressions about stages of a compilation use: captures, pieces of DDPOptimizer, and numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from functorch.compile import aot_function
from torch import Tensor, _guards, fx, nn
from torch._dynamo import compiled_autograd
from torch._dynamo import config as dynamo_config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.distributed import SubmodCompiler
from torch._functorch import config, partitioners
from torch._functorch._aot_autograd import (
    graph_capture,
    graph_capture_wrappers,
    graph_compile,
    runtime_wrappers,
    streams,
    utils,
)
from torch._functorch._aot_autograd.descriptors import PlainAOTInput, PlainAOTOutput
from torch._functorch._aot_autograd.functional_utils import to_fun
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.autograd.profiler import profile
from torch.utils._python_dispatch import _detect_infra_mode

from suites.aot.base import ramp
from suites.aot.called import FAKE, aten, fake, graph, input_info, metadata, unary
from suites.aot.called_programs import noting_compilers, said, tracing
from suites.aot.called_wrappers import aot_config
from suites.aot.decisions import kind


def capture_mode(**settings: Any) -> str:
    """The mode in which a function is captured by these settings, with what it was made for."""
    modes: list[Any] = []

    def function(x: Tensor) -> list[Tensor]:
        modes.append(_detect_infra_mode(torch._C._TorchDispatchModeKey.FUNCTIONAL))
        return [x.sin()]

    graph_capture._create_graph(function, [ramp(2)], aot_config=aot_config(**settings))
    [mode] = modes
    if mode is None:
        return "none"
    return f"pre_dispatch={mode.pre_dispatch} export={mode.export} tokens={mode._allow_token_discovery}"


def functionalized(outs: Sequence[Any], inputs: Sequence[Any], **fields: Any) -> str:
    """What a function gives whose writes to inputs are in its graph, and what they leave there."""
    function, args, _ = graph_capture_wrappers.create_functionalized_fn(
        tracing(outs),
        inputs,
        [PlainAOTInput(number) for number in range(len(inputs))],
        meta=metadata(**fields),
        aot_config=aot_config(keep_inference_input_mutations=True),
        trace_joint=False,
    )
    with FunctionalTensorMode():
        values, _ = function(*args)
    return f"{said(values, inputs)} | {[each.tolist() for each in inputs]}"


def changed_in_joint(change: Callable[[Tensor], object], **fields: Any) -> str:
    """What a joint function gives that changes its input, by what is known of the input's changes."""

    def joined(primals: Any, tangents: Any) -> Any:
        change(primals[0])
        return ([primals[0].sin()], []), ([PlainAOTOutput(0)], [])

    given = [fake(2, 3)], [fake(2, 3)]
    function, *_ = graph_capture_wrappers.create_functionalized_fn(
        joined,
        given,
        ([PlainAOTInput(0)], [PlainAOTInput(1)]),
        meta=metadata(input_info=[input_info(**fields)]),
        aot_config=aot_config(),
        trace_joint=True,
    )
    with FAKE, FunctionalTensorMode():
        ((found,), _), _ = function(*given)
    return kind(found)


def counters(tensor: Tensor, write: Callable[[Tensor], object] = id) -> str:
    """How often a functional tensor and its storage are changed by a write, and how often resized."""
    with FunctionalTensorMode():
        value = to_fun(tensor)
        write(value)
    return str(graph_capture_wrappers._get_mutation_counters(value))


def copied_on(of_copy: int | None, of_value: int | None) -> int | None:
    """The stream on which a graph writes a value back to its input, of those that its nodes say."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    value = graph.call_function(aten.sin.default, (x,))
    copy = graph.call_function(aten.copy_.default, (x, value))
    for node, stream in ((value, of_value), (copy, of_copy)):
        if stream is not None:
            node.meta["custom"] = {"stream": stream}
    graph.output((copy,))
    streams.assign_epilogue_copy_streams(fx.GraphModule(nn.Module(), graph))
    return streams.get_stream(copy)


def decomposed(selective: bool) -> list[str]:
    """The operators that a capture replaces, where it does so selectively or not."""
    with config.patch(selective_decompose=selective):
        settings = aot_config(decompositions={aten.addmm.default: None})
        with graph_compile.maybe_skip_decompose(settings) as given:
            return list(map(str, given.decompositions))


def _last(nodes: Sequence[fx.Node], tupled: bool) -> Any:
    return (nodes[-1],) if tupled else nodes[-1]


def piece(tupled: bool) -> str:
    """What a compiler is given of a piece of DDPOptimizer, and what then gives a tuple."""
    root, value, lines = nn.Module(), fake(2, 3), []
    root.piece = graph(lambda made: _last(unary(made, aten.sin.default), tupled))
    outer = fx.Graph()
    outer.output(outer.call_module("piece", (outer.placeholder("x"),)))
    whole = fx.GraphModule(root, outer)

    def compiler(made: fx.GraphModule, given: Sequence[Any]) -> Any:
        lines.append(f"{[each is value for each in given]} {made.code.strip().splitlines()[-1].strip()}")
        lines.append(made.compile_subgraph_reason.reason)
        return made.forward

    found = SubmodCompiler(whole, compiler, FAKE).run(value)
    compiled = whole.get_submodule("compiled_piece")(ramp(2, 3))
    lines.append(
        f"{type(found).__name__} {type(compiled).__name__} {[name for name, _ in whole.named_children()]}"
    )
    return "\n".join(lines)


def of_floats(program: Callable[..., Any], *numbers: float) -> str:
    """The graphs of a program that is compiled for a tensor and these numbers, one after another."""
    lines: list[str] = []
    backend = aot_autograd(**noting_compilers(lines))
    torch._dynamo.reset()
    try:
        function = torch.compile(program, backend=backend)
        for number in numbers:
            x = ramp(3).requires_grad_()
            result = function(x, number)
            (slope,) = torch.autograd.grad(result.sum(), x)
            lines.append(f"{kind(result)} {result.sum().item():.6g} {slope.sum().item():.6g}")
    finally:
        torch._dynamo.reset()
    return "\n".join(lines)


def donated_later(saved_tensors_use_once: bool) -> list[list[list[int]]]:
    """What a backward and the context of its compilation are still donated, where it is compiled late."""
    record, of_context = metadata(bw_donated_idxs=[1]), metadata(bw_donated_idxs=[2])
    context = _guards.TracingContext(FAKE)
    context.fw_metadata = of_context
    late = runtime_wrappers.AutogradLazyBackwardCompileInfo(graph(unary), [], context, None)
    compiler = runtime_wrappers._AutogradBackwardCompiler(
        None, late, False, lambda made, given: made.forward, aot_config(), record, None
    )
    compiler.get_or_compile(saved_tensors_use_once=saved_tensors_use_once)
    return [each.bw_donated_idxs for each in (record, of_context)]


def effects_of_subgraph(known: str, called: str) -> list[bool]:
    """Whether a call of a subgraph is one with effects, where those of one are known, and what is beside."""
    made = fx.Graph()
    body = made.get_attr("body")
    node = made.call_function(torch.ops.higher_order.invoke_subgraph, (body, called))
    context = _guards.TracingContext(FAKE)
    cache = context.hop_dispatch_set_cache.get_cache(torch.ops.higher_order.invoke_subgraph)
    cache.add_effects(known, {"an effect"})
    without = utils.is_with_effects(node)
    with _guards.tracing(context):
        return [without, utils.is_with_effects(node), utils.is_with_effects(body)]


def backward_written_with(**fields: Any) -> str:
    """What the function that writes a backward is given, for a record with these fields."""
    record = metadata(num_symints_saved_for_bw=0, num_forward=1, num_outputs_rng_offset=0, **fields)
    nothing = (record, None, [], None, None, None, None, None, None, [], 0)
    with mock.patch.object(runtime_wrappers, "_codegen_compiled_backward") as write:
        graph_compile._aot_stage2c_make_autograd_function(aot_config(), [], *nothing)
    return str(write.call_args.args)


def inputs_of_joint(program: Callable[..., Any], *inputs: Any) -> list[str]:
    """The inputs of a program's joint graph, as it describes them."""
    found: list[str] = []

    def partition(made: fx.GraphModule, *args: Any, **named: Any) -> Any:
        placeholders = made.graph.find_nodes(op="placeholder")
        found.extend(f"{node.name} {node.meta['desc'].expr()}" for node in placeholders)
        return partitioners.default_partition(made, *args, **named)

    aot_function(program, **{**noting_compilers([]), "partition_fn": partition})(*inputs)
    return found


def enabled_within(disabled: bool, **options: Any) -> bool:
    """Whether compiled autograd is on where it is enabled, which may be where it is disabled."""
    around = compiled_autograd._disable() if disabled else contextlib.nullcontext()
    with around, compiled_autograd._enable(len, **options):
        return compiled_autograd.compiled_autograd_enabled


def reset_within(region: bool) -> None:
    """Resets compiled autograd, outside or within what it runs."""
    with mock.patch.object(compiled_autograd, "in_compiled_autograd_region", region):
        compiled_autograd.reset()


def anomalies_within() -> list[bool]:
    """Whether autograd notes where it is used, before, while and after a module that is a graph runs."""
    found: list[bool] = []

    def note(x: Tensor) -> Tensor:
        found.append(torch.is_anomaly_enabled())
        return x

    made = graph(lambda made: (unary(made, note),))
    note(ramp(2))
    with FAKE:
        graph_capture_wrappers.create_functional_call(made, [], 0)(fake(2))
    note(ramp(2))
    return found


def prologues(recorded: bool) -> int:
    """How often a profile has the time before a compiled function runs, where it is to be recorded or not."""
    function = aot_function(torch.sin, lambda made, given: made.forward)
    function(ramp(2))
    with dynamo_config.patch(record_runtime_overhead=recorded), profile() as found:
        function(ramp(2))
    return sum("Prologue" in event.name for event in found.function_events)


def regions() -> str:
    """The graphs of a function that calls one of its regions twice."""
    torch.compiler.reset()
    lines: list[str] = []
    region = torch.compiler.nested_compile_region(lambda x: x.sin().cos())
    compiler = aot_autograd(**noting_compilers(lines))
    x = ramp(2).requires_grad_()
    torch.compile(lambda x: region(x) + region(x * 2), backend=compiler, fullgraph=True)(x).sum().backward()
    return "\n".join(lines)


NAMES = {
    each.__name__: each
    for each in (capture_mode, copied_on, counters, decomposed, functionalized, piece, of_floats)
} | {
    each.__name__: each
    for each in (
        backward_written_with,
        enabled_within,
        reset_within,
        donated_later,
        effects_of_subgraph,
        inputs_of_joint,
        anomalies_within,
        prologues,
        regions,
        changed_in_joint,
    )
}
