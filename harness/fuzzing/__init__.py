"""Fuzzes collectives: random programs run on kept ranks and are compared with a numpy interpreter of them.

This module exports the public names and imports each one's module when the name is first used, as ``harness``
itself does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.fuzzing.backend import GLOO as GLOO
    from harness.fuzzing.backend import Backend as Backend
    from harness.fuzzing.case import ProgramTestCase as ProgramTestCase
    from harness.fuzzing.case import fuzz as fuzz
    from harness.fuzzing.draw import programs as programs
    from harness.fuzzing.mutation import Mutation as Mutation
    from harness.fuzzing.mutation import MutationKind as MutationKind
    from harness.fuzzing.mutation import mutated as mutated
    from harness.fuzzing.prediction import Prediction as Prediction
    from harness.fuzzing.prediction import predict as predict
    from harness.fuzzing.program import CollectiveStep as CollectiveStep
    from harness.fuzzing.program import Message as Message
    from harness.fuzzing.program import Program as Program
    from harness.fuzzing.program import Regroup as Regroup
    from harness.fuzzing.program import Step as Step
    from harness.fuzzing.program import Straggler as Straggler
    from harness.fuzzing.source import source_of as source_of

_HOMES: dict[str, tuple[str, ...]] = {
    "harness.fuzzing.backend": ("GLOO", "Backend"),
    "harness.fuzzing.case": ("ProgramTestCase", "fuzz"),
    "harness.fuzzing.draw": ("programs",),
    "harness.fuzzing.mutation": ("MutationKind", "Mutation", "mutated"),
    "harness.fuzzing.prediction": ("Prediction", "predict"),
    "harness.fuzzing.program": ("CollectiveStep", "Message", "Program", "Regroup", "Step", "Straggler"),
    "harness.fuzzing.source": ("source_of",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'harness.fuzzing' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*_HOME, *(name for name in globals() if name.startswith("__"))})
