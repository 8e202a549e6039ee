"""``Compilers``: the forward and backward compiler of one backend, with its partitioner and decompositions.

A compiler takes a ``torch.fx.GraphModule`` and example inputs (fake tensors) and returns a callable. The
callable takes the graph's inputs one by one, or, with a true attribute ``_boxed_call``, as one list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch.fx

from harness.errors import UsageError

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Compiler: TypeAlias = Callable[..., Callable[..., Any]]
Partitioner: TypeAlias = Callable[..., Any]
Decompositions: TypeAlias = Mapping[Any, Callable[..., Any]]


def nop(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """A compiler that returns the graph module itself, which runs unchanged."""
    run: Callable[..., Any] = graph
    return run


@dataclass(frozen=True, slots=True)
class Compilers:
    """The parts of one backend.

    ``inference`` compiles the graphs that have no backward; None: ``forward`` does. ``partitioner`` splits
    the joint graph into forward and backward, as those in ``torch._functorch.partitioners`` do; None is
    ``default_partition``. ``decompositions`` maps operators to the functions that are traced in their place.
    """

    name: str
    forward: Compiler
    backward: Compiler
    inference: Compiler | None = None
    partitioner: Partitioner | None = None
    decompositions: Decompositions | None = None


def compilers_of(backend: Any) -> Compilers:
    """The ``Compilers`` for a ``backend`` as ``verify_aot`` takes it.

    ``backend`` is a name in ``BACKENDS``, one compiler for forward and backward, a pair of compilers, or
    ``Compilers``. UsageError for anything else.
    """
    if isinstance(backend, Compilers):
        return backend
    if isinstance(backend, str):
        if backend not in BACKENDS:
            known = ", ".join(map(repr, BACKENDS))
            raise UsageError(f"backend={backend!r} is not known here: give one of {known}, or compilers")
        return BACKENDS[backend]()
    if callable(backend):
        return Compilers(_name_of(backend), backend, backend)
    if isinstance(backend, tuple) and len(backend) == 2 and all(map(callable, backend)):
        forward, backward = backend
        return Compilers(f"({_name_of(forward)}, {_name_of(backward)})", forward, backward)
    raise UsageError(
        f"backend={backend!r}: give a name, a compiler (callable of a graph and its inputs), "
        "a pair (forward compiler, backward compiler), or Compilers"
    )


def _name_of(compiler: Any) -> str:
    return getattr(compiler, "__name__", None) or type(compiler).__name__


def _nop() -> Compilers:
    return Compilers("nop", nop, nop)


def _aot_eager() -> Compilers:
    """The backend of ``torch.compile(backend="aot_eager")``: no compiler, and the min-cut partitioner."""
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return Compilers("aot_eager", boxed_nop, boxed_nop, partitioner=min_cut_rematerialization_partition)


def _inductor() -> Compilers:
    """Inductor's compiler below AOTAutograd, with its decompositions and its joint-graph passes.

    Random numbers are drawn as in eager (``fallback_random``): inductor's own generator draws other numbers,
    so that the results could not be compared.
    """
    from torch._inductor import config
    from torch._inductor.compile_fx import _recursive_joint_graph_passes, compile_fx_inner, partition_fn
    from torch._inductor.decomposition import select_decomp_table

    def compiler(graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Callable[..., Any]:
        # The outputs whose strides inductor has to keep; torch.compile sets this from the user's outputs
        # (related: pytorch/pytorch#136779).
        (output,) = graph.graph.find_nodes(op="output")
        output.meta["user_visible_output_idxs"] = list(range(len(output.args[0])))
        with config.patch(fallback_random=True):
            compiled: Callable[..., Any] = compile_fx_inner(graph, inputs, **options)
        return compiled

    def forward(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return compiler(graph, inputs)

    def backward(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return compiler(graph, inputs, is_backward=True)

    def inference(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        with config.patch(fallback_random=True):
            graph = _recursive_joint_graph_passes(
                graph
            )  # where there is a backward, the partitioner does this
        return compiler(graph, inputs, is_inference=True)

    def partitioner(graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        with config.patch(fallback_random=True):
            return partition_fn(graph, inputs, **options)

    with config.patch(fallback_random=True):
        decompositions = select_decomp_table()
    return Compilers("inductor", forward, backward, inference, partitioner, decompositions)


#: The backends that have a name, and what makes their compilers.
BACKENDS: dict[str, Callable[[], Compilers]] = {"nop": _nop, "aot_eager": _aot_eager, "inductor": _inductor}
