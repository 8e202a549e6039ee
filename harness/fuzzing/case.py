"""``ProgramTestCase`` and ``fuzz`` run random programs of collectives on kept ranks and shrink a failing one.

    parent: hypothesis draws a program --> ranks run it, compare, report --> verdict --> next program,
    or a smaller one

The parent draws and shrinks the programs, so the ranks never disagree on which one comes next. Ranks and
their process groups are kept from program to program. After a program that fails, hangs or kills a rank they
are replaced, and the search for a smaller program goes on with new ones.
"""

from __future__ import annotations

import itertools
import time
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch  # in the module, so that the fork server imports it once: it takes a second
import torch.distributed as dist
from hypothesis.strategies import SearchStrategy

from harness import environment
from harness.cases.continuous import MultiProcContinuousTest
from harness.errors import RankTestError, UsageError
from harness.fuzzing.draw import drawn, groups_of, programs
from harness.fuzzing.execute import run_program
from harness.fuzzing.mutation import Mutation
from harness.fuzzing.program import Program, from_json, to_json
from harness.fuzzing.shrink import smallest
from harness.fuzzing.source import source_of
from harness.outcomes import Status
from harness.ranks.modes import chosen_mode
from harness.requirements import skip_reason
from harness.settings import Settings
from harness.targets import accelerators

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: The default number of programs of a test, which take two or three seconds.
EXAMPLES = 50
#: How often a smaller program runs before it counts as passing: a race does not show in every run.
TRIES = 3

_FUZZ = "__harness_fuzz__"
# Numbers the programs of this process, because their ranks use one store for all of them.
_turns = itertools.count()
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Fuzz:
    examples: int
    strategy: Callable[[int], SearchStrategy[Program]]


def fuzz(
    examples: int = EXAMPLES, strategy: Callable[[int], SearchStrategy[Program]] = programs
) -> Callable[[Test], Test]:
    """Decorates a method of a ``ProgramTestCase`` to run in every rank for each of ``examples`` programs.

    The method gets the program, and ``self.run_program`` runs and checks it. The programs are the same in
    each run of the test, unless ``HARNESS_EXAMPLES`` asks for another number of them: then they are different
    ones each time. ``strategy`` returns the hypothesis strategy for a world size. Raises UsageError for fewer
    than one example, and for ``@fuzz`` without parentheses.
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
    ``MultiProcContinuousTest``. The groups that programs communicate on are created with the default group.
    """

    # Ranks have to be processes, because a backend has one default group a process.
    rank_modes = ("pooled",)

    #: Seconds for a program. It takes a hundredth of one, but new ranks start slowly on a loaded machine.
    program_timeout_s: float = 20.0
    #: Seconds for each smaller program that is tried during shrinking: every one that hangs costs them.
    smaller_timeout_s: float = 5.0
    #: Seconds that shrinking may take in all.
    shrinking_s: float = 60.0

    # In a rank: the groups, and the program that came with the request.
    _groups: ClassVar[dict[tuple[int, ...], Any]] = {}
    _shipped: ClassVar[dict[str, Any] | None] = None
    _turn: ClassVar[int] = 0

    # In the parent: the current program, and the smallest failing one so far.
    _program: Program | None = None
    _found: tuple[Program, RankTestError] | None = None
    _shrink_until_s: float = 0.0

    @classmethod
    def program_groups(cls, world_size: int) -> tuple[tuple[int, ...], ...]:
        """The groups that are created beside the default group, as tuples of global ranks."""
        return groups_of(world_size)

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        """Creates the default group and ``program_groups``; runs once in each rank of a rank set."""
        super()._init_pg(rank, world_size, rdvz_file)
        everyone = tuple(range(world_size))
        cls._groups = {everyone: dist.group.WORLD}
        for ranks in cls.program_groups(world_size):
            if ranks != everyone:
                cls._groups[ranks] = dist.new_group(list(ranks))

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        """Stores the program that came with the request, then continues like any kept rank."""
        cls._shipped, cls._turn = kwargs.pop("program", None), kwargs.pop("turn", 0)
        super()._run(rank, test_name, file_name, parent_pipe, **kwargs)

    @classmethod
    def _run_test_given_id(cls, test_id: str, **kwargs: Any) -> None:
        """Runs the test method, and passes it the program if there is one."""
        program = {} if cls._shipped is None else {"program": from_json(cls._shipped)}
        super()._run_test_given_id(test_id, **program, **kwargs)

    def run_program(self, program: Program, mutation: Mutation | None = None) -> None:
        """Runs a program in this rank and compares every resulting tensor with the reference.

        With a ``mutation`` it compares nothing.
        """
        kind = type(self).device_type()
        device = torch.device(kind)
        if kind != "cpu":
            device = torch.device(kind, self.rank % torch.get_device_module(kind).device_count())
        store = dist.distributed_c10d._get_default_store()
        board = dist.PrefixStore(f"program {type(self)._turn}", store)
        run_program(program, self.rank, type(self)._groups, board, device, mutation)

    # -- in the parent

    def is_known(self, program: Program, problem: RankTestError) -> bool:
        """Whether a failure is one that is known of torch, and fails no test; none is by default.

        It is asked about the smallest program that fails, and the verdict on it.
        """
        return False

    def _spawn_processes(self) -> None:
        """Starts the ranks, except for a ``@fuzz`` method: its ranks start with its first program."""
        if self._wanted() is None:
            super()._spawn_processes()
            return
        reason = skip_reason(self) or accelerators.too_few(self)
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
        return min(super()._timeout_s(settings), settings.deadline_s(own))

    def _join_processes(self, fn: Callable[..., object]) -> None:
        """Draws programs and runs them on the ranks; raises the verdict on the smallest that fails."""
        __tracebackhide__ = True
        wanted = self._wanted()
        if wanted is None:
            super()._join_processes(fn)
            return

        for program in drawn(wanted.strategy(int(self.world_size)), wanted.examples):
            if self._fails(program, fn):
                self._shrink_until_s = time.monotonic() + self.shrinking_s
                smallest(program, lambda smaller: self._fails(smaller, fn))
                assert self._found is not None, "the program itself has failed"
                if not self.is_known(*self._found):
                    raise self._explained()
                self._found = None

    def _fails(self, program: Program, fn: Callable[..., object]) -> bool:
        """Whether a program fails; ``_found`` then becomes this program and its verdict.

        During shrinking a program runs several times before it counts as passing, while there is time. Before
        that, a program that timed out runs once more: a machine that stalled does not stall twice.
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

    def _problem_with(self, program: Program, fn: Callable[..., object]) -> RankTestError | None:
        """Runs a program once and returns the error of its verdict, or None if it passed.

        Raises UsageError if the program uses a group that the ranks have not created.
        """
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
        except RankTestError as problem:
            return problem
        return None

    def _explained(self) -> RankTestError:
        """The error that the test raises: the verdict on the smallest program, and its script."""
        assert self._found is not None, "there is something to explain"
        program, problem = self._found
        backend = type(self).backend_str
        script = source_of(
            program,
            str(backend() if callable(backend) else backend),
            device_type=type(self).device_type(),
            plugin=environment.settings().plugin or "",
        )
        text = f"{problem}\nThe program:\n{program}\nAs a script:\n{script}"
        return type(problem)(text, problem.outcome)


def _timed_out(problem: RankTestError | None) -> bool:
    outcome = problem.outcome if problem is not None else None
    return outcome is not None and outcome.status is Status.TIMED_OUT
