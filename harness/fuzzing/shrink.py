"""Shrinks a failing program until every further removal or simplification of a step makes it pass.

hypothesis shrinks programs badly: a step is many choices, which it does not remove at once, and it cannot
know how expensive a try is. Shrinking by steps and fields needs fewer tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.program import CollectiveStep, Delay, Program, Regroup, Step, Straggler


def smallest(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Shrinks ``program``, which fails, to a failing program of which no variant from ``simpler`` fails.

    No program is tried twice.
    """
    passed: set[Program] = set()
    while True:
        for candidate in simpler(program):
            if candidate in passed:
                continue
            if fails(candidate):
                program = candidate
                break
            passed.add(candidate)
        else:
            return program


def simpler(program: Program) -> Iterator[Program]:
    """Yields programs that are simpler by one change.

    The first lack half of the steps, the next a quarter, and so on down to one step; the last have one
    plainer step.
    """
    count = len(program.steps)
    size = count // 2
    while size:
        for start in range(0, count, size):
            yield without(program, range(start, start + size))
        size //= 2
    for number, step in enumerate(program.steps):
        for plainer in _plainer(step, program.world_size):
            try:
                yield replace(program, steps=(*program.steps[:number], plainer, *program.steps[number + 1 :]))
            except UsageError:  # messages that could then overtake each other
                continue


def without(program: Program, numbers: range) -> Program:
    """The program without the given steps; a step that took the output of one of them takes nothing."""
    kept = [number for number in range(len(program.steps)) if number not in numbers]
    places = {number: place for place, number in enumerate(kept)}
    return replace(program, steps=tuple(_renumbered(program.steps[number], places) for number in kept))


def _renumbered(step: Step, places: Mapping[int, int]) -> Step:
    if isinstance(step, CollectiveStep) and step.takes is not None:
        return replace(step, takes=places.get(step.takes))
    return step


def _plainer(step: Step, world_size: int) -> Iterator[Step]:
    """Yields the step with one field made plainer. No change undoes another, so shrinking ends."""
    everyone = tuple(range(world_size))
    changes: tuple[dict[str, Any], ...]
    if isinstance(step, Straggler):
        changes = ({"rank": 0},)
    elif isinstance(step, Regroup):
        changes = ({"group": everyone},)
    elif isinstance(step, CollectiveStep):
        changes = (
            {"takes": None},
            {"missing": None},
            *_sooner("delay", step.delay),
            {"group": everyone, "root": 0},
            {"missing": step.group[0] if step.missing is not None else None},
            {"root": 0},
            {"op": "sum", "dtype": "float32"},
            {"dtype": "float32"},
            {"op": "sum"},
            {"uneven": False},
            {"views": False, "gaps": False},
            {"gaps": False},
            {"managed": False},
            {"shape": (2,)},
        )
    else:
        changes = (
            {"lag": 0, "send": None, "receive": None},
            {"lag": 0},
            {"lag": max(-1, min(step.lag, 1))},
            *_sooner("send", step.send),
            *_sooner("receive", step.receive),
            {"group": everyone, "source": 0, "target": 1},
            {"group": everyone},
            {"tag": 0},
            {"objects": False},
            {"views": False},
            {"dtype": "float32"},
            {"shape": (2,)},
        )
    for change in changes:
        plainer = _changed(step, change)
        if plainer is not None and plainer != step:
            yield plainer


def _sooner(name: str, delay: Delay) -> Iterator[dict[str, Any]]:
    """Yields plainer delays: a synchronous call, and a wait without steps in between."""
    if delay is not None:
        yield {name: None}
        yield {name: 0}


def _changed(step: Step, change: Mapping[str, Any]) -> Step | None:
    """The step with other values, or None if they are not valid together."""
    try:
        return replace(step, **change)
    except UsageError:
        return None
