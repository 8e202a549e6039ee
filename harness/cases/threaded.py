"""``MultiThreadedTestCase`` and ``spawn_threads_and_init_comms``: tests whose ranks are threads.

Upstream's visible contract (``torch.testing._internal.common_distributed``): the method runs in a fresh
instance in each thread, on torch's threaded process group, between ``perThreadSetUp`` and
``perThreadTearDown``. Beyond it, every rank has its own outcome, a hang is reported with stacks, and a rank
draws the random numbers that it would draw as a process.

Threads have limits that processes do not have: a signal, ``os._exit`` or a crash in C ends the whole run; a
hang that holds the GIL can be ended only from outside this process; signal handlers cannot be set; the output
of ranks is not separated; globals of modules are shared.
"""

from __future__ import annotations

import copy
import functools
import os
import threading
import types
import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, ClassVar, TypeVar, cast, overload

from harness import accepted_output, environment, seeding
from harness.accepted_output import Accepted
from harness.cases import defaults, verdict
from harness.cases.in_rank import finish_in_rank, set_tolerances, tolerances
from harness.cases.multiprocess import RankOrchestration
from harness.conformance import cells
from harness.protocol import Launch, ModuleRef
from harness.rank_merging import merge, with_communication
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.job import RunningRanks
from harness.ranks.result import run_body
from harness.ranks.threads.mode import ThreadRanks
from harness.ranks.threads.rank import RankThread
from harness.ranks.threads.rank_set import RankThreads
from harness.ranks.threads.supervisor import supervise_threads
from harness.ranks.value_directory import ValueDirectory
from harness.requirements import get_required_world_size, requirements_of
from harness.requirements import timeout as deadline
from harness.settings import SUPERVISED, Settings
from harness.testcase import TestCase
from harness.watched_method import require_ordinary

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class ThreadedOrchestration(RankOrchestration):
    """``RankOrchestration`` on threads; see ``MultiThreadedTestCase``."""

    MAIN_THREAD_RANK = -1
    rank_modes = ("threads",)
    # False: the ranks run at the same time, and share the process's random generators and settings.
    takes_turns: ClassVar[bool] = True
    global_store: ClassVar[Any] = None

    def __init__(self, method_name: str = "runTest", methodName: str = "runTest") -> None:
        self.threads: Sequence[RankThread] = ()
        super().__init__(method_name, methodName)

    # -- what a subclass may override or read

    @property
    def world_size(self) -> int:
        """What the test requires (``requires_world_size``), else upstream's default, 4."""
        return get_required_world_size(self, defaults.WORLD_SIZE)

    @property
    def _current_test_name(self) -> str:  # type: ignore[override]  # upstream's is a property here, a method there
        return self._testMethodName

    def perThreadSetUp(self) -> None:
        """Runs in each rank before the test method, after its process group was made."""

    def perThreadTearDown(self) -> None:
        """Runs in each rank after the test method, before the rank's cleanups and the end of its group."""

    def setUpRank(self) -> None:
        """The same hook as in the process modes; by default it calls ``perThreadSetUp``."""
        self.perThreadSetUp()

    def tearDownRank(self) -> None:
        """The same hook as in the process modes; by default it calls ``perThreadTearDown``."""
        self.perThreadTearDown()

    def assertEqualOnRank(self, x: Any, y: Any, msg: Any = None, *, rank: int = 0) -> None:
        """Calls ``assertEqual`` on one rank and does nothing on other ranks."""
        if self.rank == rank:
            self.assertEqual(x, y, msg)

    def assertNotEqualOnRank(self, x: Any, y: Any, msg: Any = None, *, rank: int = 0) -> None:
        """Calls ``assertNotEqual`` on one rank and does nothing on other ranks."""
        if self.rank == rank:
            self.assertNotEqual(x, y, msg)

    # -- in the parent

    def setUp(self) -> None:
        """Prepares the test; a class may start its threads by ``_spawn_threads``, else the method does."""
        super(RankOrchestration, self).setUp()
        self.processes = []
        self.threads = ()
        self.rank = self.MAIN_THREAD_RANK
        # Makes Python errors from C++ include the C++ stack; ranks start with this environment.
        before = os.environ.get("TORCH_SHOW_CPP_STACKTRACES")
        os.environ["TORCH_SHOW_CPP_STACKTRACES"] = "1"
        self.addCleanup(_restore, "TORCH_SHOW_CPP_STACKTRACES", before)

    def tearDown(self) -> None:
        """Ends threads that were never joined."""
        super().tearDown()
        self.threads = ()

    def _spawn_threads(self) -> None:
        """Starts the ranks; SkipTest where the test's requirements are not met on this machine."""
        self._spawn_processes()

    def _start(self, mode: str, settings: Settings, timeout_s: float | None = None) -> None:
        from harness.ranks.threads import torch_groups

        type(self).global_store = torch_groups.new_store()
        super()._start(mode, settings, timeout_s)
        running: RunningRanks | None = self._running
        self.threads = running.threads if isinstance(running, ThreadRanks) else ()

    def _join_processes(self, fn: Callable[..., object]) -> None:
        __tracebackhide__ = True
        self._join_threads(self.threads, fn)

    def _join_threads(self, threads: Sequence[RankThread], fn: Callable[..., object]) -> None:
        """Waits until every rank has ended, and raises the test's verdict."""
        __tracebackhide__ = True
        super()._join_processes(fn)

    def _request(self, settings: Settings) -> Launch:
        return Launch(
            module=ModuleRef(type(self).__module__),
            qualname=type(self).__qualname__,
            method=self._current_test_name,
            world_size=self._number_of_ranks(),
            file_name="",
            environ={},
            cwd="",
            sys_path=[],
            argv=[],
        )

    # -- in a rank

    @classmethod
    def _run_in_thread(cls, rank: int, test_name: str, channel: DirectChannel) -> None:
        cls._run(test_name, rank, len(_own_thread().owner.threads))

    @classmethod
    def _run(cls, test_name: str, rank: int, world_size: int, **kwargs: Any) -> None:  # type: ignore[override]  # upstream's differ
        """The rank's entry point: runs the method on a new instance. An override may do more around it."""
        self = cls(test_name)
        self.rank = rank
        self.run_test_with_threaded_pg(test_name, rank, world_size)

    def run_test_with_threaded_pg(self, test_name: str, rank: int, world_size: int) -> None:
        """Makes the rank's process group, runs the test method and records its result.

        Returns only if it passed, as ``MultiProcessTestCase.run_test`` does. The group is destroyed when all
        ranks have reported.
        """
        from harness.ranks.threads import torch_groups

        torch_groups.init_group(rank, world_size, type(self).global_store)
        self._run_in_rank(_own_thread().channel)


class MultiThreadedTestCase(ThreadedOrchestration, TestCase):
    """A case whose test methods run on ``world_size`` ranks, each a thread of this process.

    Only one rank runs at a time: it runs until it waits in a collective, for a store, in ``time.sleep`` or
    for a ``subprocess``, and then another rank gets the run token. So process-wide state - generators of
    ``random``, numpy and torch, default dtype, deterministic mode, environment, working directory, warning
    filters, standard streams, DTensor's generator - is each rank's own while it runs, and the parent's again
    afterwards. A rank that waits elsewhere (for a lock, an event, a socket, in C) loses the run token after
    some tenths of a second: when its wait ends it sees the state of the rank that then has the token, and
    from the third time on all ranks run at once. A collective that can never be complete, because all ranks
    that still work wait, ends the test at once. Source of the contract:
    ``common_distributed.MultiThreadedTestCase``.
    """


Method = TypeVar("Method", bound=Callable[..., Any])


@overload
def spawn_threads_and_init_comms(
    func: None = None, timeout: float | None = None, world_size: int = defaults.WORLD_SIZE
) -> Callable[[Method], Method]: ...


@overload
def spawn_threads_and_init_comms(
    func: Method, timeout: float | None = None, world_size: int = defaults.WORLD_SIZE
) -> Method: ...


def spawn_threads_and_init_comms(
    func: Callable[..., Any] | None = None,
    timeout: float | None = None,
    world_size: int = defaults.WORLD_SIZE,
) -> Any:
    """Decorates a method of any TestCase: it runs on ``world_size`` rank threads of one process group.

    Each rank has a copy of the instance, whose attribute values are shared until a rank assigns to them.
    ``timeout`` in seconds; the test's deadline (``HARNESS_TIMEOUT``, ``@timeout``) by default. Outcomes are
    as in ``MultiThreadedTestCase``.
    """
    if func is None:
        return functools.partial(spawn_threads_and_init_comms, timeout=timeout, world_size=world_size)
    method = func

    @functools.wraps(method)
    def on_ranks(self: unittest.TestCase, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        settings = environment.settings()
        own = requirements_of(type(self), self._testMethodName).timeout_s
        limit = settings.deadline_s(timeout, own)
        require_ordinary(method, self)
        _run_on_threads(self, functools.partial(_call, method, args, kwargs), world_size, settings, limit)

    setattr(on_ranks, SUPERVISED, True)
    return on_ranks if timeout is None else deadline(timeout)(on_ranks)


def _call(method: Callable[..., Any], args: Any, kwargs: Any, case: unittest.TestCase) -> Any:
    return method(case, *args, **kwargs)


def _run_on_threads(
    case: unittest.TestCase,
    method: Callable[[unittest.TestCase], Any],
    world_size: int,
    settings: Settings,
    timeout_s: float,
) -> None:
    """Runs ``method`` on a copy of the case in each of ``world_size`` threads; raises the test's verdict."""
    from harness.ranks.threads import torch_groups

    __tracebackhide__ = True
    store = torch_groups.new_store()
    parents = tolerances(case)

    def body(rank: int, channel: DirectChannel) -> None:
        torch_groups.init_group(rank, world_size, store)
        seeding.seed_all(seeding.base_seed())
        own = _copy_for_rank(case, method)
        set_tolerances(own, parents)
        with accepted_output.collecting() as accepted:
            result = run_body(own, _nothing, _nothing, channel.subtest_failed)
        finish_in_rank(channel, replace(result, accepted=tuple(u.to_json() for u in accepted.updates)))

    started = monotonic()
    level = requirements_of(type(case), case._testMethodName).communication_check or settings.comm_check
    values = ValueDirectory(level)
    recorded = cells.directory_of(settings.conformance, case.id())
    ranks = RankThreads(world_size, body, timeout_s=timeout_s, values=values.path, cells=recorded)
    ranks.start()
    watched = supervise_threads(ranks, settings, started=started, timeout_s=timeout_s)
    outcome = with_communication(merge(watched.outcomes), level or None, values.findings())
    outcome = replace(outcome, duration_s=monotonic() - started, mode="threads")
    case._harness_outcome = outcome  # type: ignore[attr-defined]  # where the run's records look for it
    verdict.raise_verdict(case, outcome)
    if any(o.accepted for o in watched.outcomes):
        noted = [[Accepted.from_json(cast(Any, v)) for v in o.accepted] for o in watched.outcomes]
        accepted_output.apply(noted)


def _copy_for_rank(case: unittest.TestCase, method: Callable[[unittest.TestCase], Any]) -> Any:
    """A copy whose test method is ``method``, with its own cleanups and sub-tests."""

    @functools.wraps(getattr(case, case._testMethodName))  # with the mark of expectedFailure
    def own_method(self: unittest.TestCase) -> Any:
        return method(self)

    own: Any = copy.copy(case)
    own._cleanups = []
    own._outcome = None
    own._subtest = None
    setattr(own, case._testMethodName, types.MethodType(own_method, own))
    return own


def _nothing() -> None:
    """The set-up and tear-down in a rank: the case's own run in the parent."""


def _own_thread() -> RankThread:
    thread = threading.current_thread()
    assert isinstance(thread, RankThread), "called in a rank, by its thread"
    return thread


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
