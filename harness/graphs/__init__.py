"""Helpers for tests of compilers: the graphs that a compiler made of a function, as values to assert on.

Importing this package imports none of its modules: each public name imports its module on first use, so that
nobody pays for dependencies that they do not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.graphs.aot import verify_aot as verify_aot
    from harness.graphs.capture import Capture as Capture
    from harness.graphs.capture import CapturedGraph as CapturedGraph
    from harness.graphs.collective_waits import collectives as collectives
    from harness.graphs.collective_waits import insert_waits as insert_waits
    from harness.graphs.collective_waits import strip_waits as strip_waits
    from harness.graphs.collective_waits import unwaited as unwaited
    from harness.graphs.communication import Collective as Collective
    from harness.graphs.communication import collectives_of as collectives_of
    from harness.graphs.communication import communication_bytes as communication_bytes
    from harness.graphs.communication import count_collectives as count_collectives
    from harness.graphs.communication import summarize_collectives as summarize_collectives
    from harness.graphs.compilers import Compilers as Compilers
    from harness.graphs.compilers import compilers_of as compilers_of
    from harness.graphs.compilers import nop as nop
    from harness.graphs.ddp_bucketing import DDP_OPTIMIZER_DEVIATIONS as DDP_OPTIMIZER_DEVIATIONS
    from harness.graphs.ddp_bucketing import MODEL_OUTPUT as MODEL_OUTPUT
    from harness.graphs.ddp_bucketing import DdpParameter as DdpParameter
    from harness.graphs.ddp_bucketing import ForwardOperator as ForwardOperator
    from harness.graphs.ddp_bucketing import expected_buckets as expected_buckets
    from harness.graphs.ddp_capture import captured_splits as captured_splits
    from harness.graphs.ddp_capture import splits_of as splits_of
    from harness.graphs.ddp_splits import DdpSplit as DdpSplit
    from harness.graphs.ddp_splits import splits_from_json as splits_from_json
    from harness.graphs.ddp_splits import splits_to_json as splits_to_json
    from harness.graphs.front_ends import AotFunction as AotFunction
    from harness.graphs.front_ends import Compilation as Compilation
    from harness.graphs.front_ends import FrontEnd as FrontEnd
    from harness.graphs.programs import ViewProgram as ViewProgram
    from harness.graphs.text import graph_text as graph_text
    from harness.graphs.train_step import CompiledStep as CompiledStep
    from harness.graphs.train_step import Override as Override
    from harness.graphs.verified import VerificationResult as VerificationResult
    from harness.graphs.verifier import MismatchError as MismatchError
    from harness.graphs.verifier import UnbackedSize as UnbackedSize
    from harness.graphs.view_program_strategy import view_programs as view_programs
    from harness.releases import torch_at_least as torch_at_least

_HOMES: dict[str, tuple[str, ...]] = {
    "harness.graphs.aot": ("verify_aot",),
    "harness.graphs.capture": ("Capture", "CapturedGraph"),
    "harness.graphs.communication": (
        "Collective",
        "collectives_of",
        "communication_bytes",
        "count_collectives",
        "summarize_collectives",
    ),
    "harness.graphs.compilers": ("Compilers", "compilers_of", "nop"),
    "harness.graphs.ddp_bucketing": (
        "MODEL_OUTPUT",
        "DDP_OPTIMIZER_DEVIATIONS",
        "ForwardOperator",
        "DdpParameter",
        "expected_buckets",
    ),
    "harness.graphs.ddp_capture": ("captured_splits", "splits_of"),
    "harness.graphs.ddp_splits": ("DdpSplit", "splits_from_json", "splits_to_json"),
    "harness.graphs.front_ends": ("AotFunction", "Compilation", "FrontEnd"),
    "harness.graphs.view_program_strategy": ("view_programs",),
    "harness.graphs.programs": ("ViewProgram",),
    "harness.releases": ("torch_at_least",),
    "harness.graphs.text": ("graph_text",),
    "harness.graphs.train_step": ("CompiledStep", "Override"),
    "harness.graphs.verified": ("VerificationResult",),
    "harness.graphs.verifier": ("MismatchError", "UnbackedSize"),
    "harness.graphs.collective_waits": ("collectives", "unwaited", "insert_waits", "strip_waits"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'harness.graphs' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*_HOME, *(name for name in globals() if name.startswith("__"))})
