"""Transforms a traced graph before it runs: cleans it up, buckets its all-reduces, applies user changes."""

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
    """Removes the nodes that only profilers need, and buckets all-reduces unless ``bucket_mb`` is None."""
    profiled = (
        torch.ops.profiler._record_function_exit._RecordFunction,
        torch.ops.profiler._record_function_enter_new.default,
    )
    # The exits come first, because they use what the entries return. Dead-code elimination keeps both, since
    # they are registered as stateful operators (pytorch/pytorch#65180).
    for target in profiled:
        for node in gm.graph.find_nodes(op="call_function", target=target):
            gm.graph.erase_node(node)
    if bucket_mb is not None:
        bucket_all_reduces(gm, bucket_mb)
    gm.recompile()
    return gm


def apply_overrides(
    gm: GraphModule, flat_state: list[Tensor], rest: int, overrides: Sequence[Override]
) -> GraphModule:
    """Calls each override's ``transform`` with the graph and ``flat_state``, in order.

    ``rest`` is the number of the graph's other inputs. Raises UsageError if an override returns no graph
    module, a broken graph, or one whose placeholders do not match its inputs.
    """
    for override in overrides:
        who = f"{type(override).__name__}.transform"
        gm = _checked(override.transform(gm, flat_state), who)
        _check_placeholders(gm, len(flat_state) + rest, who)
    return gm


def apply_gm_transformation(
    gm: GraphModule, inputs: int, transformation: Callable[[GraphModule], GraphModule] | None
) -> GraphModule:
    """Calls the user's ``gm_transformation``, if there is one, and returns the graph module that it returns.

    Raises UsageError for any other result, a broken graph, or a graph without ``inputs`` placeholders.
    """
    if transformation is None:
        return gm
    gm = _checked(transformation(gm), "gm_transformation")
    _check_placeholders(gm, inputs, "gm_transformation")
    return gm


def _checked(gm: Any, who: str) -> GraphModule:
    """Checks what a user's transformation returned, and recompiles it so that it runs its changed graph."""
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
