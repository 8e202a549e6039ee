"""Faults of the compilers behind dynamo, which change no number: graphs run, but as nobody asked for."""

from __future__ import annotations

from typing import Any

from torch._dynamo.backends.debugging import boxed_nop
from torch.utils.checkpoint import CheckpointPolicy

from suites.planting import replacing


def _save_all(original: Any, joint: Any, *args: Any, **kwargs: Any) -> Any:
    for node in _tagged(joint):
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return joint


def _tagged(joint: Any) -> list[Any]:
    """The calls that a checkpointed region has left to be made again."""
    return [node for node in joint.graph.nodes if node.op == "call_function" and "recompute" in node.meta]


COMPILERS = (
    replacing(
        "aot_returns_eager",
        "AOTAutograd compiles nothing",
        "torch._dynamo.backends.common:AotAutograd.__call__",
        lambda original, self, graph, inputs, **options: graph.forward,
    ),
    replacing(
        "inductor_generates_nothing",
        "inductor runs each graph as AOTAutograd made it",
        "torch._inductor.compile_fx:_compile_fx_inner",
        lambda original, graph, inputs, *args, **options: boxed_nop(graph, inputs),
    ),
)
CHECKPOINTS = (
    replacing(
        "checkpoints_save_all",
        "nothing of a checkpointed region is computed again",
        "torch._functorch.partitioners:cleanup_recompute_tags",
        _save_all,
        lambda joint, *args, **kwargs: bool(_tagged(joint)),
    ),
)
