"""``ProgramTestCase`` and ``fuzz``: random programs of collectives on kept ranks, shrunk where one goes
wrong.

    parent: hypothesis draws a program --> ranks run it, compare, report --> verdict --> next, or a smaller
    one

The parent owns the drawing and the shrinking, so ranks never disagree on what comes next. They are kept from
program to program with all their groups; where a program fails, hangs or kills one, they are replaced, and
the search for a smaller one goes on with others.
"""

from __future__ import annotations

import itertools
import time
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch  # here and not in each rank: it takes a second, which the server spends once
import torch.distributed as dist
from hypothesis.strategies import SearchStrategy

from harness import environment
from harness.cases.continuous import MultiProcContinuousTest
from harness.errors import RankProblem, UsageError
from harness.fuzzing.draw import drawn, groups_of, programs
from harness.fuzzing.execute import run_program
from harness.fuzzing.program import Program, from_json, to_json
from harness.fuzzing.shrink import smallest
from harness.fuzzing.source import source_of
from harness.outcomes import Status
from harness.ranks.modes import chosen_mode
from harness.requirements import reason_to_skip
from harness.settings import Settings

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: Programs of a test, unless it says otherwise: two or three seconds.
EXAMPLES = 50
#: How often a smaller program is tried before it counts for one that does not fail: faults of time need luck.
TRIES = 3

_FUZZ = "__harness_fuzz__"
# Numbers the programs of this process; their ranks use a store for all of them.
_turns = itertools.count()
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Fuzz:
    examples: int
    strategy: Callable[[int], SearchStrategy[Program]]


def fuzz(
    examples: int = EXAMPLES, strategy: Callable[[int], SearchStrategy[Program]] = programs
) -> Callable[[Test], Test]:
    """Has a method of a ``ProgramTestCase`` run once in every rank for each of ``examples`` programs.

    The method gets the program; ``self.run_program`` runs it and checks what comes of it. The programs are
    the same in each run; ``HARNESS_EXAMPLES`` asks for another number of them, others each time. ``strategy``
    makes them for a world size. UsageError for no examples, and for ``@fuzz`` without parentheses.
    """
    if isinstance(examples, bool) or not isinstance(examples, int) or examples < 1:
        raise UsageError(f"fuzz(examples={examples!r}): write @fuzz(), with a number of 1 or more if any")
    if not callable(strategy):
        raise UsageError(f"fuzz(strategy={strategy!r}): give a function of the world size")

    def decorate(test: Test) -> Test:
        setattr(test, _FUZZ, _Fuzz(examples, strategy))
        return test

    return decorate


class ProgramTestCase(MultiProcContinuousTest):
    """A case whose ``@fuzz`` methods run programs of collectives on kept ranks.

    ``backend_str``, ``device_type``, ``world_size``, ``opts`` and ``_init_pg`` are those of
    ``MultiProcContinuousTest``. The groups that programs communicate on are made with the default group.
    """

    # A backend has one default group a process, so ranks are processes; they are kept from program to
    # program.
    rank_modes = ("pooled",)

    #: Seconds for a program. It takes a hundredth of one, but a loaded machine may have to make ranks for it.
    program_timeout_s: float = 20.0
    #: Seconds for each of those that are tried for being smaller than one that failed: every hang costs them.
    smaller_timeout_s: float = 5.0
    #: Seconds for looking for a smaller one in all.
    shrinking_s: float = 60.0

    # In a rank: the groups, and the program that came with the request.
    _groups: ClassVar[dict[tuple[int, ...], Any]] = {}
    _shipped: ClassVar[dict[str, Any] | None] = None
    _turn: ClassVar[int] = 0

    # In the parent: the program at hand, and the smallest so far of those that went wrong.
    _program: Program | None = None
    _found: tuple[Program, RankProblem] | None = None
    _shrink_until_s: float = 0.0

    @classmethod
    def program_groups(cls, world_size: int) -> tuple[tuple[int, ...], ...]:
        """The groups that are made beside the default one, as tuples of global ranks."""
        return groups_of(world_size)

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        """Makes the default group and the others; runs in each rank, once for a rank set."""
        super()._init_pg(rank, world_size, rdvz_file)
        everyone = tuple(range(world_size))
        cls._groups = {everyone: dist.group.WORLD}
        for ranks in cls.program_groups(world_size):
            if ranks != everyone:
                cls._groups[ranks] = dist.new_group(list(ranks))

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        """Notes the program that the request brings, and goes on as any kept rank."""
        cls._shipped, cls._turn = kwargs.pop("program", None), kwargs.pop("turn", 0)
        super()._run(rank, test_name, file_name, parent_pipe, **kwargs)

    @classmethod
    def _run_test_given_id(cls, test_id: str, **kwargs: Any) -> None:
        """Runs the method, with its program if it wants one."""
        program = {} if cls._shipped is None else {"program": from_json(cls._shipped)}
        super()._run_test_given_id(test_id, **program, **kwargs)

    def run_program(self, program: Program) -> None:
        """Runs a program in this rank and compares every tensor that it gets with the reference."""
        kind = type(self).device_type()
        device = torch.device(kind, None if kind == "cpu" else self.rank)
        store = dist.distributed_c10d._get_default_store()
        board = dist.PrefixStore(f"program {type(self)._turn}", store)
        run_program(program, self.rank, type(self)._groups, board, device)

    # -- in the parent

    def _spawn_processes(self) -> None:
        """Starts ranks; those of a ``@fuzz`` method only once there is a program for them."""
        if self._wanted() is None:
            super()._spawn_processes()
            return
        reason = reason_to_skip(self)
        if reason is not None:
            raise unittest.SkipTest(reason)

    def _wanted(self) -> _Fuzz | None:
        return getattr(getattr(type(self), self._testMethodName), _FUZZ, None)

    def _run_arguments(self, world_size: int) -> dict[str, Any]:
        arguments = super()._run_arguments(world_size)
        if self._program is not None:
            arguments.update(program=to_json(self._program), turn=next(_turns))
        return arguments

    def _timeout_s(self, settings: Settings) -> float:
        if self._wanted() is None:
            return super()._timeout_s(settings)
        own = self.program_timeout_s if self._found is None else self.smaller_timeout_s
        return min(super()._timeout_s(settings), own)

    def _join_processes(self, fn: Callable[..., object]) -> None:
        """Draws programs and has the ranks run them; raises for the smallest that goes wrong."""
        __tracebackhide__ = True
        wanted = self._wanted()
        if wanted is None:
            super()._join_processes(fn)
            return

        for program in drawn(wanted.strategy(int(self.world_size)), wanted.examples):
            if self._fails(program, fn):
                self._shrink_until_s = time.monotonic() + self.shrinking_s
                smallest(program, lambda smaller: self._fails(smaller, fn))
                raise self._explained()

    def _fails(self, program: Program, fn: Callable[..., object]) -> bool:
        """Whether a program goes wrong; ``_found`` is the last one that did.

        One that is tried for being smaller has several tries, while there is time. The first that fails by
        hanging has two: a machine that stood still does not do so twice.
        """
        smaller = self._found is not None
        if smaller and time.monotonic() > self._shrink_until_s:
            return False
        for _ in range(TRIES if smaller else 1):
            problem = self._problem_with(program, fn)
            if not smaller and _timed_out(problem):
                problem = self._problem_with(program, fn)
            if problem is not None:
                self._found = program, problem
                return True
        return False

    def _problem_with(self, program: Program, fn: Callable[..., object]) -> RankProblem | None:
        """Runs a program once; what its ranks' verdict raises. UsageError where ranks lack a group of it."""
        size = int(self.world_size)
        unknown = {*program.groups} - {*self.program_groups(size), tuple(range(size))}
        if unknown:
            raise UsageError(f"group {min(unknown)} is not made: name it in program_groups, or do without it")
        self._program = program
        self._end_ranks()
        settings = environment.settings()
        self._start(chosen_mode(self.rank_modes, settings), settings)
        try:
            super()._join_processes(fn)
        except RankProblem as problem:
            return problem
        return None

    def _explained(self) -> RankProblem:
        """What the test raises: the verdict on the smallest program, and the program as a script."""
        assert self._found is not None, "there is something to explain"
        program, problem = self._found
        backend = type(self).backend_str
        script = source_of(program, str(backend() if callable(backend) else backend))
        text = f"{problem}\nThe program:\n{program}\nAs a script:\n{script}"
        return type(problem)(text, problem.outcome)


def _timed_out(problem: RankProblem | None) -> bool:
    outcome = problem.outcome if problem is not None else None
    return outcome is not None and outcome.status is Status.TIMED_OUT
