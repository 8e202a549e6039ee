"""From a program that goes wrong to a smallest one that does: no step can be left out of it or made plainer.

hypothesis stops early with programs, whose steps are too many choices each to be left out at a stroke; and it
knows nothing of what a try may cost. A program's own terms make fewer tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.program import CollectiveStep, Delay, Message, Program, Step, Straggler


def smallest(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A program that ``fails``, as ``program`` does, and of which nothing simpler does.

    No program is tried twice. What is simpler: ``simpler``.
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
    """The programs that are simpler by one thing: without half of the steps, or less, or with a plainer
    one."""
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
    """The program without some steps. Who took up what they gave takes nothing; the others are renumbered."""
    kept = [number for number in range(len(program.steps)) if number not in numbers]
    places = {number: place for place, number in enumerate(kept)}
    return replace(program, steps=tuple(_renumbered(program.steps[number], places) for number in kept))


def _renumbered(step: Step, places: Mapping[int, int]) -> Step:
    if isinstance(step, CollectiveStep) and step.takes is not None:
        return replace(step, takes=places.get(step.takes))
    return step


def _plainer(step: Step, world_size: int) -> Iterator[Step]:
    """The step with one thing in it made plainer. None of these leads back, so shrinking comes to an end."""
    everyone = tuple(range(world_size))
    changes: tuple[dict[str, Any], ...]
    if isinstance(step, Straggler):
        changes = ({"rank": 0},)
    elif isinstance(step, CollectiveStep):
        changes = (
            {"takes": None},
            *_sooner("delay", step.delay),
            {"group": everyone, "root": 0},
            {"root": 0},
            {"op": "sum", "dtype": "float32"},
            {"dtype": "float32"},
            {"op": "sum"},
            {"uneven": False},
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
            {"dtype": "float32"},
            {"shape": (2,)},
        )
    for change in changes:
        plainer = _changed(step, change)
        if plainer is not None and plainer != step:
            yield plainer


def _sooner(name: str, delay: Delay) -> Iterator[dict[str, Any]]:
    """A shorter delay is plainer than a longer one, and none plainer than any."""
    if delay is not None:
        yield {name: None}
        yield {name: 0}


def _changed(step: CollectiveStep | Message | Straggler, change: Mapping[str, Any]) -> Step | None:
    """The step with other values, or None where these make none."""
    try:
        return replace(step, **change)
    except UsageError:
        return None
