"""``RankFunction``: the case that runs a test function on ranks, which ``@pytest.mark.ranks`` asks for.

pytest sets the function's fixtures up in its own process, and each rank gets a copy of their values.
"""

from __future__ import annotations

import functools
import types
import unittest
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from harness import pytest_outcomes
from harness.cases import verdict
from harness.cases.distributed import DistributedTestBase
from harness.cases.fixture_values import decoded, encoded
from harness.cases.rank_context import RankContext
from harness.cases.ranks_mark import MODES, RanksMark
from harness.errors import LaunchError, UsageError
from harness.protocol import ModuleRef
from harness.ranks.processes import module_import
from harness.requirements import Requirements, requirements_of
from harness.watched_method import require_ordinary

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Arguments of a test function that are no copies of fixtures' values in ranks, but the rank's own: its
# context, what begins sub-tests, and what replaces things until the test ends.
CONTEXT = "rank_context"
SUBTESTS = "subtests"
MONKEYPATCH = "monkeypatch"
_METHOD = "test"


class RankFunction(DistributedTestBase):
    """The case of one test function; ``for_function`` makes it in the parent, ``_run`` in a rank."""

    rank_modes = MODES
    what_makes_a_group = (
        "rank_context.init_process_group() makes it, or @pytest.mark.ranks without backend=None"
    )
    # The instance of a plain class whose method the function is; None for any other function.
    plain_instance: object = None
    _mark: RanksMark
    _name: str
    _target: dict[str, Any]

    @classmethod
    def for_function(
        cls,
        function: Callable[..., Any],
        mark: RanksMark,
        *,
        name: str,
        values: Mapping[str, Any],
        own: Collection[str] = (),
    ) -> RankFunction:
        """The case for a function at the top of its module, or a method of a plain class there.

        ``name`` is the test's id, ``values`` are those of its arguments. Of these ``own`` are pytest's
        fixtures of which each rank has one of its own: ``SUBTESTS``, ``MONKEYPATCH``. A bound method's
        instance in a rank gets copies of the attributes that this one has now.
        UsageError for a function that ranks cannot import, and for one whose body no rank would run.
        """
        self = cls(_METHOD)
        plain = getattr(function, "__func__", function)
        require_ordinary(plain)
        module_name, qualname = _place(function)
        if "<locals>" in qualname:
            raise UsageError(f"{name} is defined inside a function, where ranks cannot import it")
        module = module_import.reference(module_name)
        self._mark, self._name = mark, name
        owner = getattr(function, "__self__", None)
        self.plain_instance = None if isinstance(owner, type) else owner
        own = {name for name in (CONTEXT, *own) if name in values}
        self._target = {
            "module": [module.name, module.file, module.run_as],
            "qualname": qualname,
            "values": encoded({name: value for name, value in values.items() if name not in own}),
            "attributes": encoded(getattr(self.plain_instance, "__dict__", {}), partly=True),
            "own": sorted(own),
            "backend": mark.backend,
            "world_size": mark.world_size,
        }
        if mark.mode is not None:
            self.rank_modes = (mark.mode,)

        @functools.wraps(plain)  # with what the harness's decorators have put on it
        def body(self: RankFunction) -> None:
            """Only called in ranks, by another instance."""

        self.test = self.join_or_run(types.MethodType(body, self))  # type: ignore[method-assign]
        return self

    def id(self) -> str:
        """The id of the function."""
        return self._name if self.rank == self.MAIN_PROCESS_RANK else super().id()

    @property
    def world_size(self) -> int:
        """The number of ranks that the mark says."""
        return self._mark.world_size

    def _requirements(self) -> Requirements:
        return requirements_of(self, _METHOD)

    def _imports_of_ranks(self) -> list[str]:
        group = ["torch.distributed"] if self._mark.backend is not None else []  # of ``init_process_group``
        return [*super()._imports_of_ranks(), self._target["module"][0], *group]

    def _run_arguments(self, world_size: int) -> dict[str, Any]:
        return {"target": self._target}

    # -- in a rank

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        target = kwargs["target"]
        self = cls(test_name)
        self.rank, self.file_name, self._target = rank, file_name, target
        self._mark = RanksMark(target["world_size"], target["backend"])
        self.run_test(test_name, parent_pipe)

    def test(self) -> Any:
        """Calls the function with its arguments, this rank's context and sub-tests; returns what it returns.

        A coroutine that a decorated one returns was not awaited and makes the test an error.
        """
        target = self._target
        function = _find(ModuleRef(*target["module"]), target["qualname"], target["attributes"])
        values = decoded(self._target["values"])
        context = RankContext(self.rank, self.world_size, self._mark.backend, self._file_name)
        if context.backend is not None:
            context.init_process_group()
        own = {CONTEXT: lambda: context, SUBTESTS: lambda: RankSubtests(self), MONKEYPATCH: self._monkeypatch}
        values.update((name, own[name]()) for name in self._target["own"])
        return function(**values)

    def _monkeypatch(self) -> Any:
        """pytest's fixture of that name, of this rank: what it replaces comes back at the end."""
        import pytest

        monkeypatch = pytest.MonkeyPatch()
        self.addCleanup(monkeypatch.undo)
        return monkeypatch


class RankSubtests:
    """What a test function has in ranks as its argument ``subtests``: sub-tests of the rank's."""

    def __init__(self, case: unittest.TestCase) -> None:
        self._case = case

    def test(self, msg: str | None = None, **parameters: Any) -> AbstractContextManager[None]:
        """A sub-test of these parameters; the test goes on after a failure in it."""
        return self._case.subTest(*(() if msg is None else (msg,)), **parameters)


@dataclass(frozen=True, slots=True)
class FailedSubtest:
    """A failed sub-test of a function on ranks, merged over the ranks."""

    msg: str | None
    parameters: Mapping[str, Any]
    error: BaseException


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    """The module and the name in it by which ranks find the function.

    A bound method is found in the class that it is bound to, which may have inherited it.
    """
    owner = getattr(function, "__self__", None)
    if owner is None:
        return function.__module__, function.__qualname__
    cls = owner if isinstance(owner, type) else type(owner)
    return cls.__module__, f"{cls.__qualname__}.{function.__name__}"


def _find(module: ModuleRef, qualname: str, attributes: str) -> Callable[..., Any]:
    """The function, or the method on a new instance of its class; LaunchError where there is none.

    ``attributes`` are those that the instance gets, encoded.
    """
    owner_name, _, name = qualname.rpartition(".")
    if owner_name:
        owner: Any = module_import.find_class(module, owner_name)()
        for attribute, value in decoded(attributes).items():
            vars(owner)[attribute] = value
    else:
        owner = module_import.import_reference(module)
    found = getattr(owner, name, None)
    if not callable(found):
        raise LaunchError(f"{module.name} has no function {qualname} when ranks import it")
    return found  # type: ignore[no-any-return]


def run(case: RankFunction, report: Callable[[FailedSubtest], object] | None = None) -> None:
    """Runs the case in the parent, and raises what it failed with, SkipTest included.

    ``report`` is called for each failed sub-test before. Without it the first of them is raised, too.
    """
    __tracebackhide__ = True
    result = _Problems()
    case.run(result)
    for subtest in result.subtests:
        if report is not None:
            report(subtest)
        else:
            result.problem = result.problem or subtest.error
    if result.problem is not None:
        raise result.problem
    if result.reasons:
        raise unittest.SkipTest("; ".join(result.reasons))


class _Problems(unittest.TestResult):
    """Keeps the first exception of a case, its failed sub-tests, and why it was skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: BaseException | None = None
        self.subtests: list[FailedSubtest] = []
        self.reasons: list[str] = []

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """Keeps the first exception."""
        self.problem = self.problem or err[1]

    addFailure = addError

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Keeps what ``pytest.xfail`` raises: ranks have called it, or unittest's decorator expects it."""
        outcome = getattr(err[1], "outcome", None)
        reason = verdict.xfail_reason(outcome) if outcome is not None else str(err[1])
        self.problem = self.problem or pytest_outcomes.xfail(reason) or err[1]

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Keeps that the function, which is decorated with ``expectedFailure``, passed."""
        self.problem = self.problem or AssertionError("unexpected success")

    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:
        """Keeps a failed sub-test."""
        if err is not None:
            msg = subtest._message if isinstance(subtest._message, str) else None
            self.subtests.append(FailedSubtest(msg, dict(subtest.params), err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Keeps the reason."""
        self.reasons.append(reason)
