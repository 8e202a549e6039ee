"""``Capture`` records each graph that a backend is given, as a copy from before the backend changes it.

The copy includes the graph modules inside the graph, such as the branches of a ``cond``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
import torch.fx
from torch._functorch.partitioners import default_partition

from harness.errors import UsageError
from harness.graphs.compilers import Compiler, Compilers, Partitioner
from harness.graphs.text import graph_text

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Role = Literal["forward", "inference", "backward", "joint"]


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """One graph that was given to a compiler, or, with the role ``joint``, to the partitioner.

    ``forward`` is a forward graph that has a backward, ``inference`` one that has none. ``graph`` is a copy
    of the graph of ``root``, whose sub-modules and constants it uses; ``root`` is itself a copy if it
    contains other graph modules.
    """

    role: Role
    root: torch.fx.GraphModule
    graph: torch.fx.Graph

    @classmethod
    def of(cls, role: Role, module: torch.fx.GraphModule) -> CapturedGraph:
        """Capture the module's graph as it is now."""
        return cls(role, _with_own_children(module), _copied(module.graph))

    @property
    def module(self) -> torch.fx.GraphModule:
        """A new module that runs the graph; each access generates its code, which is slow."""
        return torch.fx.GraphModule(self.root, self.graph)

    @property
    def text(self) -> str:
        """The graph as ``graph_text`` prints it."""
        return graph_text(self.root, name=self.role, graph=self.graph)

    @property
    def placeholders(self) -> list[torch.fx.Node]:
        """The graph's input nodes, in order."""
        return list(self.graph.find_nodes(op="placeholder"))

    @property
    def outputs(self) -> list[Any]:
        """The values that the graph returns, in order: nodes, and constants such as None."""
        (output,) = self.graph.find_nodes(op="output")
        returned = output.args[0]
        return list(returned) if isinstance(returned, (list, tuple)) else [returned]


@dataclass(slots=True)
class Capture:
    """The captured graphs in the order of compilation; ``ran`` has one entry per run of a graph."""

    graphs: list[CapturedGraph] = field(default_factory=list)
    ran: list[CapturedGraph] = field(default_factory=list)

    def around(self, compilers: Compilers) -> Compilers:
        """The same compilers, which from now on record here each graph that they are given."""
        return replace(
            compilers,
            forward=self._noting("forward", compilers.forward),
            backward=self._noting("backward", compilers.backward),
            inference=self._noting("inference", compilers.inference or compilers.forward),
            partitioner=self._noting_joint(compilers.partitioner or default_partition),
        )

    def _noting(self, role: Role, compiler: Compiler) -> Compiler:
        def noting(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            captured = CapturedGraph.of(role, graph)
            self.graphs.append(captured)
            compiled = compiler(graph, inputs)
            if not callable(compiled):
                raise UsageError(
                    f"the {role} compiler returned a {type(compiled).__name__}: a compiler returns a callable"
                )
            return self._counting(captured, compiled)

        return noting

    def _counting(self, captured: CapturedGraph, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """``compiled``, recorded in ``ran`` at each run; it takes its inputs as one list."""
        boxed = getattr(compiled, "_boxed_call", False)

        def counting(inputs: list[Any]) -> Any:
            outputs = compiled(inputs) if boxed else compiled(*inputs)
            self.ran.append(captured)
            return outputs

        counting._boxed_call = True  # type: ignore[attr-defined]  # how AOTAutograd is told
        return counting

    def _noting_joint(self, partitioner: Partitioner) -> Partitioner:
        def noting(graph: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
            self.graphs.append(CapturedGraph.of("joint", graph))
            return partitioner(graph, inputs, **options)

        return noting


def _copied(original: torch.fx.Graph) -> torch.fx.Graph:
    """A copy with the same names and metadata."""
    graph = torch.fx.Graph()
    output = graph.graph_copy(original, {}, return_output_node=True)
    if output is not None:
        value, node = output
        graph.output(value).meta.update(node.meta)
    return graph


def _with_own_children(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """``module``, or a copy with copied children if there are graph modules among its children.

    It is not copied needlessly, since making a module generates its code, which is slow.
    """
    return _whole_copy(module) if _children(module) else module


def _whole_copy(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph and of all graphs nested in it; constants are those of the original."""
    copy = torch.fx.GraphModule(module, _copied(module.graph))
    for name, child in _children(copy):
        setattr(copy, name, _whole_copy(child))
    return copy


def _children(module: torch.fx.GraphModule) -> list[tuple[str, torch.fx.GraphModule]]:
    return [
        (name, child) for name, child in module.named_children() if isinstance(child, torch.fx.GraphModule)
    ]
