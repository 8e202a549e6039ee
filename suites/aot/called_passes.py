"""What expressions about passes over graphs use: streams, tokens, passes before gradients, serialization."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from functorch.compile import aot_function, make_boxed_func
from torch import Tensor, fx, nn
from torch._dynamo.source import LocalSource
from torch._functorch import aot_autograd, partitioners
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd import (
    autograd_cache,
    functional_utils,
    graph_capture,
    graph_compile,
    streams,
    utils,
)
from torch._functorch._aot_autograd.runtime_wrappers import SerializableCompiledFunction
from torch._inductor import config

from suites.aot.base import ramp
from suites.aot.called import aten, fake, graph, metadata, unary
from suites.aot.called_programs import checked_info, noting_compilers
from suites.aot.called_wrappers import aot_config


def synchronized(*nodes: tuple[str, int | None], device: str = "meta") -> list[str]:
    """Which nodes of a chain wait for which, by tags and streams; the first one is an input of the graph."""
    made, known = fx.Graph(), {}
    node = made.placeholder("x")
    for number, of in enumerate(nodes):
        node = node if number == 0 else made.call_function(aten.sin.default, (node,), name=f"n{number}")
        known[node] = of
    made.output((node,))
    for node, (tag, stream) in known.items():
        node.meta |= {"partitioner_tag": tag, "val": torch.empty(2, device=device)}
        node.meta |= {} if stream is None else {"custom": {"stream": stream}}
    with mock.patch.object(streams, "insert_sync") as insert:
        streams.insert_backward_syncs(fx.GraphModule(nn.Module(), made))
    return [f"{call.args[1]} waits for {call.args[2]}" for call in insert.mock_calls]


def without_tokens() -> list[str]:
    """The nodes of a graph that was given a token and now makes one, and those of a part that has none."""
    made = fx.Graph()
    token, x = made.placeholder("token"), made.placeholder("x")
    effect = made.call_function(torch.ops.higher_order.with_effects, (token, aten.sin.default, x))
    made.output(tuple(made.call_function(operator.getitem, (effect, place)) for place in (0, 1)))
    whole = fx.GraphModule(nn.Module(), made)
    whole.part = graph(lambda of: (unary(of, aten.sin.default),))
    utils.unlift_tokens(whole, metadata(tokens={"an effect": None}), aot_config())
    return [f"{node.name} {sorted(node.meta)}" for of in (whole, whole.part) for node in of.graph.nodes]


def compiled_module(timing: str = "default", serializes: bool = False) -> list[Any]:
    """The passes that run before a module is compiled, and how the compiled one says that it is saved."""
    ran: list[int] = []

    def passed(made: fx.GraphModule, given: Any) -> fx.GraphModule:
        ran.append(len(given))
        return made

    stage = aot_autograd.aot_stage2_compile

    def compile_last(*given: Any) -> Any:
        compiled, record = stage(*given)
        return (SerializableCompiledFunction(compiled, len) if serializes else compiled), record

    with (
        config.patch(pre_grad_pass_timing=timing),
        mock.patch.object(aot_autograd, "aot_stage2_compile", compile_last),
    ):
        found = aot_autograd.aot_module_simplified(
            graph(unary),
            [ramp(2)],
            fw_compiler=lambda made, _: make_boxed_func(made.forward),
            pre_grad_passes=passed,
        )
    return [ran, getattr(found.serialize, "__name__", None)]


def functional_without_fsdp(made: fx.GraphModule) -> Any:
    """Whether a graph writes to its inputs alone, in a process that has no FSDP."""
    with mock.patch.object(torch.ops, "fsdp", SimpleNamespace()):
        return functional_utils._is_functional_graph(made.graph)


def restrided(*strides: tuple[int, ...] | None) -> list[str]:
    """The inputs for which a backward is compiled whose forward gives what is saved with these strides."""
    made = graph(lambda nodes: [nodes.placeholder(f"x{number}") for number, _ in enumerate(strides)])
    values = [fake(2, 3) for _ in strides]
    for node, value in zip(made.graph.find_nodes(op="placeholder"), values, strict=True):
        node.meta["val"] = value
    record = metadata(num_forward=0, num_symints_saved_for_bw=0, num_tensors_saved_with_no_vc_check=0)
    compiled = graph_compile._aot_stage2b_bw_compile(made, None, record, list(strides), 0, aot_config(), len)
    return [
        "as it was" if found is value else f"{found.stride()}"
        for found, value in zip(compiled[0].placeholder_list, values, strict=True)
    ]


def results_of_forward(**fields: Any) -> list[int]:
    """How many results of a forward a partitioner is told of, by a record with these fields."""
    told: list[int] = []

    def partition(made: fx.GraphModule, given: Any, *, num_fwd_outputs: int, **more: Any) -> Any:
        told.append(num_fwd_outputs)
        return made, made

    record = metadata(**fields)
    graph_compile._partition_joint_graph_into_fw_bw(
        graph(unary), ([], []), record, record, aot_config(), partition
    )
    return told


class Checking(torch.autograd.Function):
    """A function whose backward does something besides."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        checked_info(slope)
        return slope * 2


def undescribed(count: int) -> list[str]:
    """What is known of a graph's inputs that are not described."""
    found = graph_capture._create_graph(
        lambda *inputs: [sum(inputs)], [ramp(2) for _ in range(count)], aot_config=aot_config()
    )
    return [f"{node.name} {sorted(node.meta)}" for node in found.graph.find_nodes(op="placeholder")]


def sources_of_inputs(parameters: str, *of_inputs: str | None) -> list[str]:
    """Where the parameters and the inputs of a module come from, as is written down for its compilation."""
    made = fx.Graph()
    for number, source in enumerate(of_inputs):
        made.placeholder(f"x{number}")._dynamo_source = source and LocalSource(source)
    made.output(())
    whole = fx.GraphModule(nn.Module(), made)
    for name in parameters.split():
        whole.register_parameter(name, nn.Parameter(ramp(2)))
    whole.meta["dynamo_compile_id"] = None
    whole._param_name_to_source = {name: LocalSource(name) for name in parameters.split()}
    *_, found = aot_autograd.prepare_aot_config(whole, [ramp(2) for _ in of_inputs], None, False, False)
    named = [f"{source and source.name}" for source in found.aot_autograd_arg_pos_to_source]
    return [*named, f"static {found.static_input_indices}"]


def accumulated_on(*nodes: tuple[bool, int | None]) -> list[int | None]:
    """The streams of a chain's nodes once those that sum gradients have theirs."""
    made = fx.Graph()
    node = made.placeholder("x")
    for sums, stream in nodes:
        node = made.call_function(aten.sin.default, (node,))
        node.meta |= {"is_gradient_acc": sums} | ({} if stream is None else {"custom": {"stream": stream}})
    made.output((node,))
    streams.assign_backward_streams(fx.GraphModule(nn.Module(), made))
    return [streams.get_stream(each) for each in made.find_nodes(op="call_function", target=node.target)]


def waiting_for_event() -> list[str]:
    """A graph of two streams, one of which waits for an event of the other, with what the waits depend on."""
    made = fx.Graph()
    one = made.call_function(aten.sin.default, (made.placeholder("x"),))
    made.call_function(torch.ops.streams.record_event.default, (7, 3))
    made.call_function(torch.ops.streams.wait_event.default, (7, 4))
    other = made.call_function(aten.cos.default, (one,))
    made.output((other,))
    for node, stream in ((one, 3), (other, 4)):
        node.meta |= {"val": ramp(2), "custom": {"stream": stream}}
    streams.wrap_all_sync_nodes_with_control_deps(fx.GraphModule(nn.Module(), made))
    return [f"{node.name} {node.args}" for node in made.nodes]


def states_of_subgraphs(backward: bool) -> list[str]:
    """The nodes of a graph that calls two subgraphs, once it has the generators' states that they ask for."""
    root, made = nn.Module(), fx.Graph()
    node = made.placeholder("x")
    for name in ("one", "other"):
        inner = fx.Graph()
        for of in ("x", "fwd_rng_state_0", "bwd_rng_state_0"):
            inner.placeholder(of).meta["val"] = f"{of} of {name}"
        inner.output(())
        setattr(root, name, fx.GraphModule(nn.Module(), inner))
        node = made.call_function(torch.ops.higher_order.invoke_subgraph, (made.get_attr(name), name, node))
    made.output((node,))
    found = partitioners.thread_graphsafe_rng_from_hops(fx.GraphModule(root, made), backward)
    return [f"{node.name} {node.args} {node.meta.get('val')}" for node in found.graph.nodes]


def without_key(strict_autograd_cache: bool, strict_precompile: bool) -> Any:
    """What the cache gives for a graph for which no key can be made, where that may be an error."""
    with (
        mock.patch.object(autograd_cache, "autograd_cache_key", side_effect=ValueError("no key")),
        functorch_config.patch(strict_autograd_cache=strict_autograd_cache),
        torch._dynamo.config.patch(strict_precompile=strict_precompile),
    ):
        return autograd_cache.AOTAutogradCache.try_load(
            graph(unary), [ramp(2)], aot_config(), None, True, False
        )[0]


class _Scaled(torch.autograd.Function):
    """A function whose backward writes to what its forward was given besides."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        ctx.scale = scale
        return x * 2

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        ctx.scale.mul_(3)
        return slope * 2, None


def set_and_written() -> str:
    """The graphs of a function that gives an input the memory of another, to which its backward writes."""

    def function(x: Tensor, scale: Tensor, other: Tensor) -> Any:
        with torch.no_grad():
            scale.set_(other)
        return _Scaled.apply(x, scale)

    lines: list[str] = []
    x, scale, other = ramp(2).requires_grad_(), ramp(2), ramp(2) + 5
    compiled = aot_function(function, keep_inference_input_mutations=True, **noting_compilers(lines))
    compiled(x, scale, other).sum().backward()
    return "\n".join((*lines, str(other.tolist())))


NAMES = (
    {
        each.__name__: each
        for each in (synchronized, without_tokens, compiled_module, undescribed, sources_of_inputs, Checking)
    }
    | {
        each.__name__: each
        for each in (functional_without_fsdp, restrided, results_of_forward, set_and_written)
    }
    | {each.__name__: each for each in (accumulated_on, waiting_for_event, states_of_subgraphs, without_key)}
)
