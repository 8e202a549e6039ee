"""What becomes of a traced graph before it runs: tidied, bucketed, and changed by the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from harness.errors import UsageError
from harness.graphs.train_step.bucketing import bucket_all_reduces
from harness.graphs.train_step.overrides import Override


def prepare(gm: GraphModule, bucket_mb: float | None) -> GraphModule:
    """The tracer's graph without what only profilers read, with its all-reduces in buckets if asked for."""
    profiled = (
        torch.ops.profiler._record_function_exit._RecordFunction,
        torch.ops.profiler._record_function_enter_new.default,
    )
    for target in profiled:  # the exits first: they use what the entries return
        for node in gm.graph.find_nodes(op="call_function", target=target):
            gm.graph.erase_node(node)
    if bucket_mb is not None:
        bucket_all_reduces(gm, bucket_mb)
    gm.recompile()
    return gm


def apply_overrides(
    gm: GraphModule, flat_state: list[Tensor], rest: int, overrides: Sequence[Override]
) -> GraphModule:
    """Has each override transform graph and ``flat_state``, in order; ``rest`` counts the other inputs."""
    for override in overrides:
        who = f"{type(override).__name__}.transform"
        gm = _checked(override.transform(gm, flat_state), who)
        _check_placeholders(gm, len(flat_state) + rest, who)
    return gm


def apply_gm_transformation(
    gm: GraphModule, inputs: int, transformation: Callable[[GraphModule], GraphModule] | None
) -> GraphModule:
    """Has the user's function transform the graph, which goes on taking as many inputs."""
    if transformation is None:
        return gm
    gm = _checked(transformation(gm), "gm_transformation")
    _check_placeholders(gm, inputs, "gm_transformation")
    return gm


def _checked(gm: Any, who: str) -> GraphModule:
    """A graph module that has been changed, compiled again, so that what runs is what its graph says."""
    if not isinstance(gm, GraphModule):
        raise UsageError(f"{who} returned a {type(gm).__qualname__}: it returns a torch.fx.GraphModule")
    try:
        gm.graph.lint()
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{who} returned a broken graph: {reason}") from error
    gm.recompile()
    return gm


def _check_placeholders(gm: GraphModule, inputs: int, who: str) -> None:
    found = len(gm.graph.find_nodes(op="placeholder"))
    if found != inputs:
        raise UsageError(
            f"{who} returned a graph of {found} placeholders for {inputs} inputs: keep flat_state and the "
            "first placeholders in step, and the others as they are"
        )
