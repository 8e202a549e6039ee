"""``MultiProcessTestCase``: a unittest method that runs on N real ranks; the parent's side of the case.

Upstream's visible contract (``torch.testing._internal.common_distributed``): ``setUp`` and ``tearDown`` run
in the parent, the method runs in a fresh instance in each rank with ``rank``, ``world_size`` and
``file_name`` set. This module translates between that contract and the rank modes: it starts and joins the
ranks and merges their outcomes. ``rank_request`` says what they are asked to do; ``in_rank`` is the instance
in a rank.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from harness import accepted_output, environment
from harness.accepted_output import Accepted
from harness.cases import misspelt_attributes, verdict
from harness.cases.rank_request import RankRequest
from harness.errors import HarnessError, LaunchError
from harness.outcomes import RankOutcome, Status, TestOutcome
from harness.rank_merging import MergeRules, merge, with_communication
from harness.ranks.external import mode as external_mode
from harness.ranks.job import JobResult, RunningRanks
from harness.ranks.modes import LAUNCHED, MODES, chosen_mode, launcher_of
from harness.ranks.processes.mode import PooledRanks
from harness.ranks.processes.rank_process import RankProcess
from harness.ranks.second_attempt import second_attempt
from harness.ranks.value_directory import ValueDirectory
from harness.report.failure import MAX_OUTPUT_LINES
from harness.requirements import skip_reason
from harness.settings import EnvVar, Settings
from harness.system.scratch import remove, scratch
from harness.targets import accelerators
from harness.testcase import TestCase
from harness.watched_method import require_ordinary

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class RankOrchestration(RankRequest):
    """The mixin that runs the methods of a ``unittest.TestCase`` on ranks; it precedes that class.

    The TestCase can be this library's (``MultiProcessTestCase``), or upstream's for test files that run
    unmodified (``harness.dropin``).
    """

    # The rank modes that this class's tests can run in, the default first (see harness/ranks/modes.py).
    rank_modes: tuple[str, ...] = ("fresh", "pooled", "threads")
    # How many lines of what the cause's rank printed the failure's text has; none where all are shown.
    output_lines_in_failure = MAX_OUTPUT_LINES

    # The arguments are upstream's: unittest passes the first by position, testslide the second by name.
    def __init__(self, method_name: str = "runTest", methodName: str = "runTest") -> None:
        name = methodName if methodName != "runTest" else method_name
        super().__init__(name)
        self.processes: list[RankProcess] = []
        self.special_return_code_checks: dict[Callable[..., object], int] = {}
        self.skip_return_code_checks: list[Callable[..., object]] = []
        self._running: RunningRanks | None = None
        self._mode = ""
        self._launched_s = 0.0
        self._job_result: JobResult | None = None
        self._values = ValueDirectory(None)
        self._harness_outcome: TestOutcome | None = None
        body = getattr(self, name, None)
        if body is not None:
            setattr(self, name, self.join_or_run(body))
        elif name != "runTest":
            raise ValueError(f"{type(self).__name__} has no test method {name!r}")

    # -- what a subclass may override or read

    def _should_stop_test_suite(self) -> bool:
        return False

    def __getstate__(self) -> dict[str, Any]:
        """The instance's state without the running test's: rpc tests pickle bound methods of their case."""
        return {**self.__dict__, "_outcome": None, "_running": None, "_job_result": None}

    # -- in the parent

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Runs the test; starts the launcher's server first, which inherits the state before ``setUp``."""
        misspelt_attributes.warn(type(self))
        with contextlib.suppress(HarnessError):  # the same error is raised when the ranks start
            if chosen_mode(self.rank_modes, environment.settings()) == "external":
                self.addCleanup(external_mode.report_skip_if_not_run, self, external_mode.begun(self))
        self.start_server()
        return super().run(result)

    def start_server(self) -> None:
        """Starts what this test's ranks are forked from, unless it runs: it inherits this process's state.

        To be called before a fixture changes this process. Does nothing for a test that needs no server; an
        error is raised when the ranks start.
        """
        if not self._skipped_by_decorator():
            make_ready(self.rank_modes, type(self).__module__)

    def _skipped_by_decorator(self) -> bool:
        """Whether unittest will skip the test before ``setUp``."""
        marked = (type(self), getattr(self, self._testMethodName, None))
        return any(getattr(each, "__unittest_skip__", False) for each in marked)

    def setUp(self) -> None:
        """Makes the test's rendezvous file in this process's temporary directory."""
        super().setUp()
        self.processes = []
        self.special_return_code_checks = {}
        self.skip_return_code_checks = []
        self.rank = self.MAIN_PROCESS_RANK
        self.file_name = ""
        if not self._keeps_group():  # ranks that keep a group have a rendezvous file with the pooled set
            self._make_rendezvous()

    def _make_rendezvous(self) -> None:
        self.file_name = scratch().new_file("rendezvous")
        self.addCleanup(_remove, self.file_name)

    def tearDown(self) -> None:
        """Ends ranks that were never joined."""
        super().tearDown()
        self._end_ranks()

    def _end_ranks(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None
        self._values.close()
        self.processes = []

    def join_or_run(self, fn: Callable[..., object]) -> types.MethodType:
        """Wraps the test method: in the parent it joins the ranks, in a rank it runs ``fn``."""

        @functools.wraps(fn)
        def method(self: RankOrchestration, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if self.rank != self.MAIN_PROCESS_RANK:
                return fn(**kwargs)
            try:
                self._join_processes(fn)
            except HarnessError as error:
                verdict.refuse_as_expected(self, error)
                raise
            return None

        return types.MethodType(method, self)

    def _spawn_processes(self) -> None:
        """Starts the ranks; SkipTest where the test's requirements are not met on this machine.

        UsageError for a method whose body no rank would run.
        """
        __tracebackhide__ = True
        reason = skip_reason(self) or accelerators.too_few(self)
        if reason is not None:
            raise unittest.SkipTest(reason)
        require_ordinary(getattr(type(self), self._testMethodName, None), self)
        self._end_ranks()
        settings = environment.settings()
        self._start(chosen_mode(self.rank_modes, settings), settings)
        self.addCleanup(self._end_ranks)

    def _start(self, mode: str, settings: Settings, timeout_s: float | None = None) -> None:
        """Starts ranks of one mode, with the test's deadline or one of ``timeout_s`` seconds."""
        self._launched_s = monotonic()
        if not self.file_name and mode != "pooled":
            self._make_rendezvous()
        self._values.close()
        self._values = ValueDirectory(self._communication_check())
        job = self._job(settings, timeout_s, self._values.path)
        if job.request.least_hosts > 1 and mode not in LAUNCHED:
            raise LaunchError(f"requires_hosts is for ranks that are processes; these are {mode}")
        _check_debugged(settings.pdb_rank, 1 if mode == "local" else job.request.world_size)
        self._running = MODES[mode](job)
        self._mode = mode
        self.processes = list(self._running.processes)

    def _join_processes(self, fn: Callable[..., object]) -> None:
        """Waits until every rank has ended or reported, and raises the test's verdict."""
        __tracebackhide__ = True
        if self._running is None:
            self._spawn_processes()
        assert self._running is not None
        self._job_result = self._running.join(self._rules(fn))
        if self._job_result.interrupted:
            outcome = replace(merge(self._job_result.outcomes), mode=self._mode, duration_s=self._elapsed_s())
            raise verdict.interrupted(self, outcome)
        self._check_return_codes(fn, self._elapsed_s())

    def _elapsed_s(self) -> float:
        return monotonic() - self._launched_s

    def _rules(self, fn: Callable[..., object]) -> MergeRules:
        if fn in self.skip_return_code_checks:
            return MergeRules(any_exit=True)
        return MergeRules(expected_exit=self.special_return_code_checks.get(fn))

    def _check_return_codes(self, fn: Callable[..., object], elapsed_time: float) -> None:
        """Merges the ranks' outcomes and raises for anything but a pass (upstream's name for this step)."""
        __tracebackhide__ = True
        assert self._job_result is not None, "the ranks were not joined"
        assert self._running is not None
        outcome = self._merged(self._rules(fn), self._job_result.outcomes)
        outcome = replace(
            outcome, warnings=verdict.left_behind(self._job_result), duration_s=elapsed_time, mode=self._mode
        )
        if self._job_result.server_lost:
            raise verdict.server_lost(self, self._running.how_the_server_ended())
        if (
            outcome.status.bad
            and isinstance(self._running, PooledRanks)
            and not self._running.first_of_its_set
        ):
            outcome = replace(outcome, warnings=(*outcome.warnings, self._retry_on_fresh_ranks(fn, outcome)))
        self._harness_outcome = outcome
        verdict.raise_verdict(self, outcome)
        if outcome.status is Status.PASSED:
            self._accept(self._job_result)

    def _merged(self, rules: MergeRules, outcomes: Sequence[RankOutcome]) -> TestOutcome:
        """The test's outcome of its ranks', with what is wrong with their communication."""
        outcome = merge(self._adjusted_outcomes(outcomes), rules)
        return with_communication(outcome, self._communication_check(), self._values.findings())

    def _retry_on_fresh_ranks(self, fn: Callable[..., object], first: TestOutcome) -> str:
        """Runs a test that failed on pooled ranks once more on fresh ones; returns a line about the cause.

        KeyboardInterrupt with the ranks of the ``first`` attempt where Ctrl-C ends the second one.
        """
        if "fresh" not in self.rank_modes:
            return "this class runs on pooled ranks only, so earlier tests cannot be ruled out as the cause"
        settings = environment.settings()
        again = second_attempt(
            functools.partial(self._start_fresh, settings),
            self._rules(fn),
            where="on fresh ranks",
            timeout_s=self._timeout_s(settings),
            elapsed_s=first.duration_s,
            merged=functools.partial(self._merged, self._rules(fn)),
        )
        if again.interrupted:
            raise verdict.interrupted(self, first)
        if again.outcome is None:
            return again.why_not
        if again.outcome.status.bad:
            return f"a fault of its own: it does not pass on fresh ranks either ({again.outcome.reason})"
        return "pollution: it passes on fresh ranks, so an earlier test left something in the pooled ones"

    def _start_fresh(self, settings: Settings, timeout_s: float) -> RunningRanks:
        """Starts fresh ranks for a second attempt, with a new rendezvous file and without logs and cells."""
        self._make_rendezvous()  # the old file has the addresses of ranks that have ended
        self._start("fresh", replace(settings, log_dir=None, conformance=None), timeout_s)
        assert self._running is not None
        return self._running

    def _adjusted_outcomes(self, outcomes: Sequence[RankOutcome]) -> Sequence[RankOutcome]:
        """The ranks' outcomes by the rules of this class, for a class in which exit codes have a meaning."""
        return outcomes

    def _accept(self, result: JobResult) -> None:
        """Writes the expected outputs that the ranks accepted, once, if all ranks agree."""
        noted: list[Sequence[Any]] = [o.accepted for o in result.outcomes]
        if any(noted):
            accepted_output.apply([[Accepted.from_json(value) for value in values] for values in noted])


class MultiProcessTestCase(RankOrchestration, TestCase):
    """A case whose test methods run on ``world_size`` ranks, each in its own process by default.

    Override ``world_size`` (a property or a class attribute). ``setUpRank`` and ``tearDownRank`` run in each
    rank around the method; ``addCleanup`` in a rank runs in that rank, and a cleanup that fails fails the
    test. ``_spawn_processes`` starts the ranks; a class whose ``setUp`` does not call it gets its ranks when
    the method runs. Source of the contract: ``common_distributed.MultiProcessTestCase``.

    Where all ranks do the same, unittest is told what a test in one process would tell it, except:

    * All that goes wrong in a rank outside of sub-tests (hooks, method, cleanups) is one failure, or one
      error if any of it is no assertion, with every traceback; its skips are one skip with all reasons.
      unittest lists each, but a verdict on N ranks has one cause.
    * ``sys.exit`` ends a rank. That is a crash, which ``expectedFailure`` does not expect. Nor does it expect
      hangs and divergences, which one process does not have.
    * A KeyboardInterrupt that a test raises in a rank is that test's error; unittest would end the run.
    * If ``setUpRank`` fails, ``tearDown`` runs, because ``setUp`` has succeeded.
    * After an expected failure unittest leaves ``tearDown`` at its first sub-test. Here it does so only where
      nothing else went wrong in a rank.
    * With ``failfast`` unittest ends a test at its first failed sub-test. Ranks go on, since one that left
      its peers in a collective would hang them.
    * A coroutine or a generator function is an error before ranks start, since none would run its body;
      unittest warns and passes.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Has a ``setUpClass``, the class's own or a mixin's, start the launcher's server before it runs.

        Else the ranks of the first class of a process inherited by chance what it sets, and those of later
        ones did not. The base defines none itself, because tests of a class that has one stay in one worker.
        """
        super().__init_subclass__(**options)
        owner = next((each for each in cls.__mro__ if "setUpClass" in vars(each)), unittest.TestCase)
        if owner is unittest.TestCase or (owner is not cls and issubclass(owner, RankOrchestration)):
            return  # nobody's, or one that starts the server already
        fixture = vars(owner)["setUpClass"]
        if isinstance(fixture, classmethod):
            cls.setUpClass = classmethod(_after_the_server(fixture.__func__))  # type: ignore[method-assign,assignment]


def _after_the_server(set_up: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(set_up)
    def set_up_class(cls: Any) -> None:
        make_ready(cls.rank_modes, cls.__module__)
        set_up(cls)

    return set_up_class


def make_ready(modes: Sequence[str], module: str) -> None:
    """Starts what ranks of these modes are forked from; an error is raised when the ranks start."""
    with contextlib.suppress(HarnessError, OSError):
        settings = environment.settings()
        if chosen_mode(modes, settings) in LAUNCHED:
            launcher_of(settings).ready(module, sys.path)


def _remove(path: str) -> None:
    """Removes a rendezvous file and the files that a case made beside it under longer names."""
    directory, name = os.path.split(path)
    for each in os.listdir(directory):
        if each == name or each.startswith(f"{name}."):
            remove(os.path.join(directory, each))


def _check_debugged(rank: int | None, world_size: int) -> None:
    """LaunchError where a rank is to be debugged that the test does not have."""
    if rank is not None and rank >= world_size:
        there = "rank 0 alone" if world_size == 1 else f"ranks 0 to {world_size - 1}"
        raise LaunchError(f"rank {rank} is to be debugged ({EnvVar.PDB_RANK}), and this test has {there}")
