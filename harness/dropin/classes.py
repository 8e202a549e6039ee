"""Decides which of upstream's classes run on which ranks of the harness, and changes the classes so.

A class keeps its identity, so that the change applies to every subclass, also to those imported later: it
loses the methods that start and join ranks, and gets a base class that has the harness's.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from harness.dropin.at_import import HOME
from harness.dropin.own_run_test import judge_with_subclasses
from harness.dropin.ranks import UpstreamContinuousRanks, UpstreamRanks


@dataclass(frozen=True, slots=True)
class ClassChange:
    """The change to one of upstream's classes: the base class that it gets and the methods that it loses.

    A torch that lacks one of these names has another contract than the known one: the class is then not
    changed. ``needed`` are names that it must have and keeps.
    """

    name: str
    ranks: type
    lost: tuple[str, ...]
    needed: tuple[str, ...] = ()


GRAFTS = (
    ClassChange(
        "MultiProcessTestCase",
        UpstreamRanks,
        lost=(
            "__init__",
            "setUp",
            "tearDown",
            "join_or_run",
            "_spawn_processes",
            "_run",
            "run_test",
            "_join_processes",
            "_check_return_codes",
        ),
        needed=("_start_processes", "world_size", "MAIN_PROCESS_RANK"),
    ),
    ClassChange(
        "MultiProcContinuousTest",
        UpstreamContinuousRanks,
        lost=(
            "__init__",
            "setUpClass",
            "tearDownClass",
            "setUp",
            "_init_pg",
            "_run_test_given_id",
            "_spawn_processes",
            "_worker_loop",
            "opts",
        ),
        needed=("backend_str", "device_type", "world_size", "MAIN_PROCESS_RANK"),
    ),
)
# The names of upstream's module that the harness's classes use.
FUNCTIONS = ("TEST_SKIPS", "get_timeout", "TestCase")


def install() -> tuple[str, ...]:
    """Changes every class that this torch allows to change; returns a line for each other one."""
    import importlib

    module = importlib.import_module(HOME)
    lines = [line for graft in GRAFTS if (line := apply(graft, module)) is not None]
    fresh = not getattr(module, _MARK, False)
    setattr(module, _MARK, True)
    if fresh:
        for line in lines:
            print(line, file=sys.stderr)
    return tuple(lines)


_MARK = "_harness_dropin_installed"


def apply(graft: ClassChange, module: Any) -> str | None:
    """Changes one class of a module that has upstream's names; returns a line where that is impossible.

    Does nothing to a class that was changed before.
    """
    case = getattr(module, graft.name, None)
    if case is not None and graft.ranks in case.__bases__:
        return None
    missing = _missing(graft, module, case)
    if missing:
        return f"harness.dropin: this torch has no {', '.join(missing)}: {graft.name} stays upstream's"
    assert case is not None
    if hasattr(graft.ranks, "upstream_way"):
        graft.ranks.upstream_way = {name: case.__dict__[name] for name in (*graft.lost, "_start_processes")}
    case.__bases__ = (graft.ranks, *case.__bases__)
    for name in graft.lost:
        delattr(case, name)
    if issubclass(case, UpstreamContinuousRanks):
        case.enter_by_run()
    elif issubclass(case, UpstreamRanks):
        judge_with_subclasses(case)
    return None


def _missing(graft: ClassChange, module: Any, case: Any) -> list[str]:
    names = [name for name in FUNCTIONS if not hasattr(module, name)]
    if case is None:
        return [*names, graft.name]
    own = [f"{graft.name}.{n}" for n in graft.lost if n not in case.__dict__]
    return names + own + [f"{graft.name}.{n}" for n in graft.needed if not hasattr(case, n)]
