"""``captured_splits`` records how DDPOptimizer splits each graph; ``splits_of`` runs it on a single model.

Both read the buckets of the real DDPOptimizer after it has made them, and its graphs as it gives them to the
backend. (A model of its rule is in ``harness.graphs.ddp_bucketing``.)
"""

from __future__ import annotations

import contextlib
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch._dynamo
from torch import fx
from torch._dynamo.backends.distributed import DDPOptimizer
from torch.nn.parallel import DistributedDataParallel

from harness.errors import UsageError
from harness.graphs.ddp_splits import MIB, Boundary, Bucket, CountedParameter, DdpSplit

# A step of the way to a parameter, as dynamo writes it: ._modules['net'], ._parameters['weight'].
_STEP = re.compile(r"_(?:modules|parameters)\['([^']+)'\]")


@contextlib.contextmanager
def captured_splits() -> Iterator[list[DdpSplit]]:
    """A context that records each graph that DDPOptimizer compiles; yields the growing list of splits.

    The list has one entry for each graph that dynamo captures while DDP's forward runs, in the order of
    compilation, also if one bucket holds the whole graph. Nothing is recorded where DDPOptimizer is not used
    (``optimize_ddp`` off) or raises. Compiled code and results are the same as outside of the context. For an
    optimizer that was made by hand, parameters are named after the place where dynamo found them.
    """
    found: list[DdpSplit] = []
    original = DDPOptimizer.compile_fn

    def compile_fn(self: Any, graph: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        capture = _Capture(graph, inputs)
        compiler = self.backend_compile_fn
        self.backend_compile_fn = capture.watching(compiler)
        try:
            compiled = original(self, graph, inputs, **options)
        finally:
            self.backend_compile_fn = compiler
        found.append(capture.split(self, compiled))
        return compiled

    with mock.patch.object(DDPOptimizer, "compile_fn", compile_fn):
        yield found


def splits_of(
    model: torch.nn.Module, *inputs: Any, bucket_cap_mb: float = 25, **named: Any
) -> list[DdpSplit]:
    """How DDPOptimizer would split ``model`` under DDP, without a process group.

    ``inputs`` and ``named`` are the forward's arguments; ``bucket_cap_mb`` is DDP's, in MiB. The model runs
    once. The compiler's caches are reset before and after. UsageError if ``model`` is not a module, or if
    ``bucket_cap_mb`` is below DDP's first bucket or not finite.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"the model is a {type(model).__name__}: give a torch.nn.Module and its inputs")
    first = torch.distributed._DEFAULT_FIRST_BUCKET_BYTES / MIB
    if not first <= bucket_cap_mb < math.inf:
        raise UsageError(f"bucket_cap_mb is {bucket_cap_mb}: DDPOptimizer takes no less than {first:g}")
    ddp = types.SimpleNamespace(module=model, bucket_bytes_cap=int(bucket_cap_mb * MIB))
    torch._dynamo.reset()
    try:
        with (
            mock.patch.object(DistributedDataParallel, "_active_ddp_module", ddp),
            torch._dynamo.config.patch(optimize_ddp=True),
            captured_splits() as splits,
        ):
            torch.compile(model, backend="eager")(*inputs, **named)
    finally:
        torch._dynamo.reset()
    return splits


class _Piece(NamedTuple):
    """One graph that the backend was given: its inputs other than parameters, and its code."""

    inputs: tuple[Boundary, ...]
    code: str


class _Capture:
    """Gathers the data of one graph's ``DdpSplit`` before, while and after DDPOptimizer compiles it."""

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self._code = _code(graph)  # copied now: if the graph is not split, the backend may change it
        self._results = _results(graph)
        self._parameters = _Parameters(graph, inputs)
        self._pieces: list[_Piece] = []

    def watching(self, compiler: Callable[..., Any]) -> Callable[..., Any]:
        """``compiler``, which from now on records each graph that it is given before compiling it."""

        def watched(graph: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
            values = [_value(node) for node in graph.graph.nodes if _is_input(node)]
            self._pieces.append(_Piece(tuple(values), _code(graph)))
            return compiler(graph, inputs, **options)

        return watched

    def split(self, optimizer: Any, compiled: Any) -> DdpSplit:
        """The ``DdpSplit``, once DDPOptimizer has compiled the graph."""
        caps = optimizer.first_bucket_cap, optimizer.bucket_bytes_cap
        made = list(reversed(optimizer.buckets))  # the optimizer keeps the bucket nearest the input first
        pieces = self._by_bucket(compiled, len(made))
        sources = {node.name: index for index, bucket in enumerate(made) for node in bucket.nodes}
        sources |= _passed_on(compiled, len(made))
        buckets = tuple(
            Bucket(
                cap=caps[min(index, 1)],
                parameters=self._parameters.counted(bucket),
                ops=tuple(_operator(node) for node in reversed(bucket.nodes) if node.op != "get_attr"),
                inputs=tuple(_from(value, sources) for value in piece.inputs),
                graph=piece.code,
                extended_by=bucket.opcount_increased_to_capture_external_output,
            )
            for index, (bucket, piece) in enumerate(zip(made, pieces, strict=True))
        )
        return DdpSplit(
            *caps,
            buckets=buckets,
            results=tuple(_from(value, sources) for value in self._results),
            missed=self._parameters.missed(made),
            graph=self._code,
        )

    def _by_bucket(self, compiled: Any, count: int) -> list[_Piece]:
        """The recorded pieces in bucket order; they were compiled in the order in which they run."""
        assert len(self._pieces) == count, "the backend was not given one graph a bucket"
        if count == 1:
            return self._pieces
        ran = [int(n.target.rsplit("_", 1)[1]) for n in compiled.graph.nodes if n.op == "call_module"]
        by_number = dict(zip(ran, self._pieces, strict=True))
        return [by_number[number] for number in reversed(range(count))]


class _Parameters:
    """The parameters that a graph uses, with the optimizer's label and the user's name for each."""

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self._names = _names_in_ddp()
        self._found: dict[str, tuple[torch.Tensor, str]] = {}
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        for node, value in zip(placeholders, inputs, strict=True):
            real = value if isinstance(value, torch.nn.Parameter) else node.meta.get("example_value")
            if isinstance(real, torch.nn.Parameter):
                self._found[str(node.target)] = (real, self._names.get(id(real)) or _place(node))
        for node in graph.graph.nodes:
            for label, name, real in _held(graph, node):
                self._found[label] = (real, self._names.get(id(real)) or name)

    def counted(self, bucket: Any) -> tuple[CountedParameter, ...]:
        """A bucket's parameters, in the order in which the bucket counted them."""
        values = tuple(self._value(label) for label in bucket.params)
        assert sum(each.size for each in values) == bucket.size, "a parameter counts for its bytes"
        return values

    def missed(self, buckets: Sequence[Any]) -> tuple[CountedParameter, ...]:
        """The parameters that DDP reduces but no bucket counted."""
        counted = {self._value(label).name for bucket in buckets for label in bucket.params}
        values = [
            self._value(label) for label, (parameter, _) in self._found.items() if parameter.requires_grad
        ]
        return tuple(each for each in values if each.name not in counted and not each.ignored)

    def _value(self, label: str) -> CountedParameter:
        parameter, name = self._found[label]
        return CountedParameter(
            name=name,
            shape=tuple(parameter.shape),
            dtype=_dtype(parameter.dtype),
            size=parameter.untyped_storage().nbytes(),
            ignored=bool(getattr(parameter, "_ddp_ignored", False)),
        )


def _names_in_ddp() -> dict[int, str]:
    """The names by ``id`` of the parameters of the DDP module whose forward is running."""
    ddp = DistributedDataParallel._active_ddp_module
    if ddp is None:
        return {}
    module = getattr(ddp, "module", ddp)  # a stand-in may be the model itself
    return {id(parameter): name for name, parameter in module.named_parameters()}


def _place(node: fx.Node) -> str:
    """The attribute path where dynamo found a graph's input; without one, the input's name in the graph."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    text = name() if callable(name) else name  # a method in some releases
    return ".".join(_STEP.findall(text or "")) or str(node.target)


def _held(graph: fx.GraphModule, node: fx.Node) -> Iterator[tuple[str, str, torch.Tensor]]:
    """The parameters that the graph module holds for ``node``, as (optimizer's label, path, parameter)."""
    if node.op == "call_module":
        for name, parameter in graph.get_submodule(str(node.target)).named_parameters():
            yield f"{node.target}_{name}", f"{node.target}.{name}", parameter
    elif node.op == "get_attr":
        value = getattr(graph, str(node.target), None)
        if isinstance(value, torch.nn.Parameter):
            yield str(node.target), str(node.target), value


def _passed_on(compiled: Any, count: int) -> dict[str, int]:
    """The buckets of values that split_module passes between pieces without being asked: symbolic sizes."""
    if count == 1:
        return {}
    found: dict[str, int] = {}
    for node in compiled.graph.nodes:
        origin = node.args[0] if node.op == "call_function" and node.args else node
        if isinstance(origin, fx.Node) and origin.op == "call_module":
            found[node.name] = count - 1 - int(str(origin.target).rsplit("_", 1)[1])
    return found


def _from(value: Boundary, sources: Mapping[str, int]) -> Boundary:
    return Boundary(value.name, value.shape, value.dtype, sources.get(value.name))


def _results(graph: fx.GraphModule) -> tuple[Boundary, ...]:
    output = next(node for node in graph.graph.nodes if node.op == "output")
    return tuple(_value(node) for node in output.all_input_nodes)


def _is_input(node: fx.Node) -> bool:
    if node.op != "placeholder":
        return False
    return not isinstance(node.meta.get("example_value"), torch.nn.Parameter)


def _value(node: fx.Node) -> Boundary:
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        shape = tuple(int(n) if isinstance(n, int) else str(n) for n in value.shape)
        return Boundary(node.name, shape, _dtype(value.dtype))
    plain = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}
    return Boundary(node.name, (), plain.get(type(value), type(value).__name__))


def _operator(node: fx.Node) -> str:
    """The short name of an operator: linear, tag_activation_checkpoint, relu, t."""
    return str(getattr(node.target, "__name__", node.target))


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _code(graph: fx.GraphModule) -> str:
    return str(graph.print_readable(print_output=False))
