"""Draws random programs: a hypothesis strategy whose every value is a valid ``Program`` that cannot deadlock.

Steps are drawn independently of each other and then fitted together, so that a program from which hypothesis
removes a step, or in which it makes a number smaller, is valid too.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import hypothesis
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from harness.errors import UsageError
from harness.fuzzing.backend import GLOO, Backend
from harness.fuzzing.program import (
    BY_ROWS,
    KINDS,
    OBJECTS,
    OPERATIONS,
    REDUCING,
    ROOTED,
    Call,
    CollectiveStep,
    Message,
    Program,
    Regroup,
    Step,
    Straggler,
)
from harness.hypothesis_examples import seed_of_examples
from harness.seeding import base_seed
from harness.settings import Settings

#: The most steps of a program: enough for several calls in flight at once.
MAX_STEPS = 12
#: The most steps between a call and its wait, and between the two calls of a message.
MAX_DELAY = 3
#: Up to this world size every subset of two or more ranks is a group; beyond it there are too many subsets.
ALL_GROUPS_UP_TO = 4
#: The number of programs that are drawn at a time.
BATCH = 100
#: A shape with more bytes than a transport sends in one piece, in any dtype, that does not split evenly.
LARGE = (70001,)


def groups_of(world_size: int) -> tuple[tuple[int, ...], ...]:
    """The groups that programs communicate on, as tuples of global ranks, all ranks first.

    Up to a world size of ``ALL_GROUPS_UP_TO`` they are all subsets of two or more ranks. Beyond it they are
    both halves, the even and the odd ranks, and the first with the last rank.
    """
    everyone = tuple(range(world_size))
    if world_size <= ALL_GROUPS_UP_TO:
        sizes = range(world_size - 1, 1, -1)
        return (everyone, *(group for size in sizes for group in combinations(everyone, size)))
    half = world_size // 2
    return (everyone, everyone[:half], everyone[half:], everyone[::2], everyone[1::2], (0, world_size - 1))


def programs(
    world_size: int,
    *,
    backend: Backend = GLOO,
    groups: Sequence[tuple[int, ...]] | None = None,
    max_steps: int = MAX_STEPS,
) -> SearchStrategy[Program]:
    """A strategy for programs of one or more steps for ``world_size`` ranks on ``groups``.

    The default for ``groups`` is ``groups_of``. Raises UsageError for fewer than two ranks, for no groups or
    no steps, and for a group with ranks outside the world size. ``shrink.smallest`` makes programs smaller.
    """
    if world_size < 2:
        raise UsageError(f"programs for {world_size} ranks: it takes two to communicate")
    known = groups_of(world_size) if groups is None else tuple(map(tuple, groups))
    if not known or max_steps < 1:
        raise UsageError("programs of no groups or of no steps: give one at least")
    for group in known:
        Program(world_size, (CollectiveStep("barrier", group),))
    # of nine steps five are collectives, of which there are eighteen kinds
    kinds: list[SearchStrategy[Step]] = [_collectives(known, backend)] * 5 + [_stragglers(world_size)]
    if backend.messages and any(len(group) > 1 for group in known):
        kinds[5:5] = [_messages(tuple(group for group in known if len(group) > 1), backend)] * 2
    if backend.regroups:
        kinds.append(st.sampled_from(known).map(Regroup))
    steps = st.lists(_one_of(kinds), min_size=1, max_size=max_steps)
    return steps.map(lambda drawn: Program(world_size, fitted(drawn)))


def drawn(strategy: SearchStrategy[Program], count: int) -> Iterator[Program]:
    """Yields ``count`` programs, the same ones in each run.

    With ``HARNESS_EXAMPLES`` set it yields that many, from ``seed_of_examples``.
    """
    asked = Settings.from_environ(os.environ).examples
    return drawn_from(strategy, asked or count, seed_of_examples(base_seed()))


def drawn_from(strategy: SearchStrategy[Program], count: int, seed: int) -> Iterator[Program]:
    """Yields ``count`` programs, which are a function of ``seed``."""
    left = count
    for batch in itertools.count(seed):
        some = _batch(strategy, min(left, BATCH), batch)
        yield from some
        left -= len(some)
        if left <= 0 or not some:
            return


def _batch(strategy: SearchStrategy[Program], count: int, seed: int) -> list[Program]:
    found: list[Program] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return found


@st.composite
def _one_of(draw: DrawFn, kinds: Sequence[SearchStrategy[Step]]) -> Step:
    """Draws from one of the strategies; unlike hypothesis's ``one_of`` it counts repeated ones repeatedly."""
    return draw(kinds[draw(st.integers(0, len(kinds) - 1))])


def fitted(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Fits independently drawn steps together into the steps of one valid program.

    As drawn, a collective's ``takes`` is the number of steps back to the one whose output it uses; it becomes
    that step's number, or None if there is no collective at that place. Messages with a lag get a tag of
    their own, and a group is made for the call that comes next.
    """
    return tuple(_fitted(number, step, steps) for number, step in enumerate(steps))


def _fitted(number: int, step: Step, steps: Sequence[Step]) -> Step:
    if isinstance(step, Message):
        return replace(step, tag=number + 1 if step.lag else 0)
    if isinstance(step, Regroup):
        return Regroup(next((s.group for s in steps[number:] if isinstance(s, Call)), step.group))
    if isinstance(step, CollectiveStep) and step.takes is not None:
        source = number - step.takes
        there = 0 <= source < number and isinstance(steps[source], CollectiveStep)
        return replace(step, takes=source if there else None)
    return step


_delays = st.none() | st.integers(0, MAX_DELAY)


@st.composite
def _shapes(draw: DrawFn, scalars: bool, large: bool = True) -> tuple[int, ...]:
    sizes = st.lists(st.integers(0, 4), min_size=0 if scalars else 1, max_size=3).map(tuple)
    return draw(st.one_of(st.just((2,)), *[sizes] * 6, *[st.just(LARGE)] * large))


@st.composite
def _collectives(draw: DrawFn, groups: Sequence[tuple[int, ...]], backend: Backend) -> CollectiveStep:
    kind = draw(st.sampled_from([kind for kind in KINDS if kind in backend.kinds]))
    group = draw(st.sampled_from(groups))
    dtypes, op = _by_use(backend.takes(kind)), "sum"
    if kind in REDUCING:
        op = draw(st.sampled_from([op for op in backend.ops if set(OPERATIONS[op]) & set(dtypes)]))
        dtypes = [dtype for dtype in dtypes if dtype in OPERATIONS[op]]
    plain, objects = kind == "barrier", kind in OBJECTS
    layouts = [(False, False)] if plain or objects else [(False, False), (True, False)]
    managed = kind in backend.managed and draw(st.sampled_from((False, False, True)))
    layouts += [(True, True)] if kind in backend.gapped or (managed and backend.gapped) else []
    views, gaps = draw(st.sampled_from(layouts))
    shape = (2,) if plain else draw(_shapes(scalars=kind not in BY_ROWS, large=not objects))
    uneven = kind == "all_to_all_single" and draw(st.booleans())
    delay, missing = None if objects else draw(_delays), None
    if (
        kind in backend.timed
        and delay is not None
        and not (managed or uneven or 0 in shape)
        and len(group) > 1
    ):
        missing = draw(st.none() | st.sampled_from(group))
    return CollectiveStep(
        kind,
        group,
        dtype="float32" if plain else draw(st.sampled_from(dtypes)),
        shape=shape,
        op=op,
        root=draw(st.integers(0, len(group) - 1)) if kind in ROOTED else 0,
        delay=delay,
        uneven=uneven,
        takes=None if plain else draw(st.none() | st.integers(1, 3)),
        views=views,
        gaps=gaps,
        managed=managed,
        missing=missing,
    )


@st.composite
def _messages(draw: DrawFn, groups: Sequence[tuple[int, ...]], backend: Backend) -> Message:
    group = draw(st.sampled_from(groups))
    source, target = draw(st.permutations(group).map(lambda ranks: ranks[:2]))
    dtype = draw(st.sampled_from(_by_use(backend.dtypes)))
    if {*OBJECTS} & {*backend.kinds} and draw(st.sampled_from((False, False, True))):
        return Message(source, target, group, dtype, draw(_shapes(scalars=True, large=False)), objects=True)
    lag = draw(st.integers(0, MAX_DELAY).flatmap(lambda n: st.sampled_from((n, -n))))
    early = st.integers(0, MAX_DELAY)
    return Message(
        source,
        target,
        group,
        dtype=dtype,
        shape=draw(_shapes(scalars=True)),
        send=draw(early if lag > 0 else _delays),
        receive=draw(early if lag < 0 else _delays),
        lag=lag,
        views=draw(st.booleans()),
    )


def _stragglers(world_size: int) -> SearchStrategy[Straggler]:
    return st.integers(0, world_size - 1).map(Straggler)


def _by_use(dtypes: Sequence[str]) -> list[str]:
    """The dtypes with float32 first, because hypothesis takes the first choice for the simplest."""
    return sorted(dtypes, key=lambda dtype: dtype != "float32")
