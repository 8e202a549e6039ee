"""Checks on one call of a compiled function: which graphs ran, and whether earlier outputs were overwritten.

A call has to run the code that was compiled. A later call of the same function must compile no further graph,
and must neither change nor return the memory of the first call's outputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch

from harness.graphs.aliasing import Named, storages
from harness.graphs.capture import Capture, CapturedGraph
from harness.graphs.differences import RunDifference, Tolerance, different_values
from harness.graphs.leaf_names import joined, named_outputs
from harness.graphs.observation import Observation
from harness.graphs.snapshots import snapshots

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class CallGraphs:
    """The graphs of a ``Capture`` that are compiled or run after this object is made, in one call."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._graphs, self._ran = len(capture.graphs), len(capture.ran)

    def not_run(self, compiled: Observation) -> Iterator[RunDifference]:
        """The differences that show that something else than the compiled code ran in the call."""
        calls = [graph for graph in self._capture.graphs if graph.role in ("forward", "inference")]
        ran = self._capture.ran[self._ran :]
        for graph in calls:
            if not any(graph is other for other in ran):
                yield RunDifference(f"{graph.role} graph", "it was compiled and never ran")
        wanted = any(graph.role == "forward" for graph in calls) and compiled.computed_gradients()
        if wanted and not any(graph.role == "backward" for graph in ran):
            yield RunDifference("backward", "no compiled one ran: the gradients come from elsewhere")

    def newly_compiled(self) -> list[CapturedGraph]:
        """The graphs that were compiled since this object was made."""
        return self._capture.graphs[self._graphs :]


class FirstOutputs:
    """The outputs of a first call, kept to find out whether a later call uses their memory.

    Outputs that share memory with inputs are left out, and so are tensors that eager returns in every call,
    such as one that the function captures.
    """

    def __init__(self, eager: Observation, first: Observation) -> None:
        inputs = first.before_call.inputs.keys()
        self._constant = _storages(_tensors(eager.returned))
        self._outputs = [
            (name, tensor)
            for name, tensor in _tensors(first.returned)
            if not inputs & set(first.aliases[name].memory) and not storages(tensor) & self._constant
        ]
        self._before = snapshots(self._outputs)

    def touched_by(self, later: Observation, which: str) -> Iterator[RunDifference]:
        """Differences that say that the ``which`` call, observed as ``later``, used the outputs' memory."""
        for name, now in snapshots(self._outputs).items():
            if list(different_values(self._before[name], now, Tolerance(0, 0))):
                yield RunDifference(f"{name} of the first call", f"the {which} call changed its values")
        inputs = later.before_call.inputs.keys()
        for name, tensor in _tensors(later.returned):
            own = storages(tensor)
            shared = [f"{other} of the first call" for other, first in self._outputs if own & storages(first)]
            if shared and not inputs & set(later.aliases[name].memory):
                yield RunDifference(name, f"shares memory with {joined(shared)}")


def _tensors(returned: Any) -> list[Named]:
    return [(name, value) for name, value in named_outputs(returned) if isinstance(value, torch.Tensor)]


def _storages(named: Sequence[Named]) -> set[Hashable]:
    return set().union(*(storages(tensor) for _, tensor in named))
