"""torch-harness: ordinary unittest methods on N real ranks, with true verdicts in tens of milliseconds.

The public names, resolved when they are first used: ``import harness`` imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cases.multiprocess import DistributedTestBase, MultiProcessTestCase
    from harness.modules import load_tests, run_tests
    from harness.testcase import TestCase

__version__ = "0.1.0"

_HOMES = {
    "harness.cases.multiprocess": ("MultiProcessTestCase", "DistributedTestBase"),
    "harness.cases.continuous": ("MultiProcContinuousTest",),
    "harness.testcase": ("TestCase",),
    "harness.modules": ("load_tests", "run_tests"),
    "harness.parametrize": ("parametrize", "subtest", "instantiate_parametrized_tests"),
    "harness.errors": (
        "HarnessError",
        "UsageError",
        "LaunchError",
        "RankProblem",
        "RankFailure",
        "RankError",
        "RankLeakWarning",
    ),
    "harness.outcomes": ("Status", "RankOutcome", "TestOutcome"),
    "harness.requirements": (),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["DistributedTestBase", "MultiProcessTestCase", "TestCase", "load_tests", "run_tests", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        requirements = importlib.import_module("harness.requirements")
        if name in requirements.__all__:
            return getattr(requirements, name)
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    requirements = importlib.import_module("harness.requirements")
    return sorted({*globals(), *_HOME, *requirements.__all__})
