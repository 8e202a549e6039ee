"""Planting faults, so that a suite can prove that it would catch them (``tools/mutants.py``).

    environment: SUITES_MUTANT=c10d:all_reduce_is_identity, SUITES_MARKS=/tmp/.../marks
    import suites --> plant_from(environ) --> Mutant.plant(touch)   in workers, servers, ranks, children
    a test runs   --> HARNESS_RUNNING_TEST=<its id>        handed down to its ranks as any variable
    the fault acts --> touch() --> a file in SUITES_MARKS   there before the rank can die of it

A suite that has faults keeps them in ``suites/<suite>/mutants.py``: ``MUTANTS``, a tuple of ``Mutant``, and
``SURVIVORS``, by mutant the tests that may pass all the same, each with its reason. ``TESTS`` there names the
tests to run, where that is not the suite.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.impact.running_test import running_test

# What to plant: "<suite>:<mutant>", or "<suite>:*" to watch where each mutant of the suite would act.
MUTANT = "SUITES_MUTANT"
# The directory of the marks.
MARKS = "SUITES_MARKS"
EVERY = "*"

Touch = Callable[[], None]
Plant = Callable[[Touch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault that a suite is to notice.

    ``what`` says in a few words what is wrong. ``plant(touch)`` makes it so for the life of the process, and
    sees to it that ``touch()`` is called each time that the faulty behaviour is executed. ``watch(touch)``,
    where there is one, calls it at the same moments but leaves the behaviour right: one run that watches all
    mutants then tells which tests each of them is worth running with, and which would have executed a fault
    that ended them first.
    """

    name: str
    what: str
    plant: Plant
    watch: Plant | None = None


def always(*_: object, **__: object) -> bool:
    """For ``replacing``: each call is concerned."""
    return True


def replacing(
    name: str,
    what: str,
    targets: str | Sequence[str],
    faulty: Callable[..., Any],
    when: Callable[..., bool] = always,
    *,
    refuses: bool = False,
) -> Mutant:
    """A mutant that puts ``faulty(original, *args, **kwargs)`` in a function's or method's place.

    ``targets`` are all the names that it is called by, as ``module:attribute`` or ``module:Class.method``;
    a module function that its package exports has two. Calls for which ``when(*args, **kwargs)`` is false are
    not concerned: they go to the original and touch nothing, as do those whose arguments have other types
    than ``when`` can judge. Nor do calls that raise: what is refused does nothing faulty, unless the function
    ``refuses`` on purpose and the fault is that it does not. Watched where not planted.
    """
    names = [targets] if isinstance(targets, str) else list(targets)

    def put(touch: Touch, faulty: Callable[..., Any] | None) -> None:
        for target in names:
            owner, attribute = _place(target)
            setattr(owner, attribute, _substitute(getattr(owner, attribute), touch, faulty, when, refuses))

    return Mutant(name, what, lambda touch: put(touch, faulty), lambda touch: put(touch, None))


def switched(name: str, what: str, plant: Callable[[Touch, bool], None]) -> Mutant:
    """A mutant of which ``plant(touch, faulty)`` can do both: make the fault, or watch the same place."""
    return Mutant(name, what, lambda touch: plant(touch, True), lambda touch: plant(touch, False))


def _substitute(
    original: Callable[..., Any],
    touch: Touch,
    faulty: Callable[..., Any] | None,
    when: Callable[..., bool],
    refuses: bool,
) -> Callable[..., Any]:
    @functools.wraps(original)
    def substitute(*args: Any, **kwargs: Any) -> Any:
        try:
            concerned = when(*args, **kwargs)
        except (AttributeError, TypeError):  # the original says what is wrong with arguments of other types
            concerned = False
        if concerned and refuses:
            touch()
        if concerned and faulty is not None:
            result = faulty(original, *args, **kwargs)
        else:
            result = original(*args, **kwargs)
        if concerned:
            touch()
        return result

    return substitute


def _place(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, attribute = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, attribute


def modules_but(suite: str, *left_out: str) -> tuple[str, ...]:
    """``TESTS`` of a suite but for some modules, named without ``test_``: those that see none of its faults.

    Such are tables of what torch notes, weighs or calls in a process that is alone: whatever its peers give
    it, or its graphs compute, is no matter to them, though they execute it. ValueError for one that is none.
    """
    modules = [path.stem for path in (Path(__file__).parent / suite).glob("test_*.py")]
    tables = [f"test_{name}" for name in left_out]
    unknown = sorted({*tables} - {*modules})
    if unknown:
        raise ValueError(f"suites.{suite} has no module {unknown[0]}")
    return tuple(f"{suite}.{name}" for name in sorted({*modules} - {*tables}))


class Faults(NamedTuple):
    """What ``suites/<suite>/mutants.py`` says, checked."""

    mutants: Mapping[str, Mutant]
    survivors: Mapping[str, Mapping[str, str]]
    tests: tuple[str, ...]


def faults_of(suite: str) -> Faults:
    """The faults of a suite, by its name below ``suites`` (``c10d``).

    UsageError where it has none, where two share a name, or where a survivor is of no mutant.
    """
    from harness.errors import UsageError

    name = f"suites.{suite}.mutants"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"suite {suite!r} has no faults: there is no {name}") from None
    mutants: tuple[Mutant, ...] = module.MUTANTS
    by_name = {mutant.name: mutant for mutant in mutants}
    if len(by_name) < len(mutants) or EVERY in by_name:
        raise UsageError(f"{name}: two mutants have one name, or one is called {EVERY!r}")
    survivors: Mapping[str, Mapping[str, str]] = getattr(module, "SURVIVORS", {})
    unknown = sorted(survivors.keys() - by_name.keys())
    if unknown:
        raise UsageError(f"{name}: SURVIVORS speaks of {unknown[0]!r}, which is no mutant")
    return Faults(by_name, survivors, tuple(getattr(module, "TESTS", (suite,))))


def plant_from(environ: Mapping[str, str]) -> None:
    """Plants what ``environ`` asks for, in this process and its forks; nothing where it asks for nothing.

    UsageError where there is no such mutant.
    """
    wanted = environ.get(MUTANT)
    if not wanted:
        return
    from harness.errors import UsageError

    suite, _, name = wanted.rpartition(":")
    mutants = faults_of(suite).mutants
    if name != EVERY and name not in mutants:
        raise UsageError(
            f"{MUTANT}={wanted}: suite {suite!r} has no such mutant; it has {', '.join(mutants)}"
        )
    marks = Marks(Path(environ[MARKS])) if MARKS in environ else None
    if name != EVERY:
        mutants[name].plant(_touch(marks, name))
        return
    for mutant in mutants.values():
        if mutant.watch is not None:
            mutant.watch(_touch(marks, mutant.name))


class Marks:
    """Which tests executed which faults: one file each, written by the process that did, as it did."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: set[tuple[str, str]] = set()

    def make(self, mutant: str, test: str) -> None:
        """Marks a test as concerned by a mutant; cheap to repeat."""
        if (mutant, test) in self._made:
            return
        file = self._directory / mutant / hashlib.sha1(test.encode()).hexdigest()
        file.parent.mkdir(exist_ok=True)
        file.write_text(test, encoding="utf-8")
        self._made.add((mutant, test))

    def of(self, mutant: str) -> set[str]:
        """The ids of the tests that are marked."""
        return {file.read_text(encoding="utf-8") for file in (self._directory / mutant).glob("*")}


def _touch(marks: Marks | None, mutant: str) -> Touch:
    """The function that marks the running test. What runs outside of a test (an import) marks none."""

    def touch() -> None:
        if marks is not None and (test := running_test()):
            marks.make(mutant, os.fsdecode(test))

    # What torch.compiler.assume_constant_result sets, without the second that importing it takes: dynamo runs
    # the function as it traces and leaves no trace of it in the graph.
    touch._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as the comment says
    return touch
