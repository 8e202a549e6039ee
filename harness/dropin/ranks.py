"""Upstream's two multi-process test contracts on the harness's ranks: mixins before upstream's TestCase."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from harness import seeding
from harness.cases.continuous import ContinuousOrchestration
from harness.cases.multiprocess import RankOrchestration
from harness.dropin import barrier, skips
from harness.dropin.child_code import differs_in_children
from harness.dropin.own_run_test import judge
from harness.outcomes import EXIT_SKIPPED, RankOutcome, Status
from harness.ranks.processes import module_import
from harness.ranks.result import RankResult
from harness.requirements import requirements_of
from harness.settings import Settings, timeout_given

if TYPE_CHECKING:
    from collections.abc import Mapping

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# A class that overrides this method starts its own processes, which upstream's code then has to join.
OWN_START = "_start_processes"
NO_RANKS = (
    "its world_size is 0, as where it is a number of GPUs and there are none: upstream starts no rank, and "
    "passes without a line of the test having run"
)


class _Contract(RankOrchestration):
    """The parts of both of upstream's contracts that are the same."""

    def __init__(self, method_name: str = "runTest", methodName: str = "runTest") -> None:
        super().__init__(method_name, methodName)
        barrier.install()

    def __getstate__(self) -> dict[str, Any]:
        """The instance's state without what cannot be pickled: tests send methods of the instance over rpc.

        Upstream's ranks call the method themselves, so their instances hold no unittest result.
        """
        return {**self.__dict__, "_outcome": None, "_running": None, "_job_result": None}

    def _timeout_s(self, settings: Settings) -> float:
        """The deadline that the test or this run sets, else upstream's deadline for this test."""
        from torch.testing._internal import common_distributed

        own = requirements_of(type(self), self._testMethodName).timeout_s
        if own is None and not timeout_given(os.environ):
            own = float(common_distributed.get_timeout(self.id()))
        return settings.deadline_s(own)

    def _imported_in_ranks(self) -> bool:
        """Also where the module asks which process it is in, which upstream's ranks answer for themselves."""
        return super()._imported_in_ranks() or differs_in_children(type(self).__module__)

    def _communication_check(self) -> str | None:
        """Warnings by default: upstream's tests do on purpose what is an error in others."""
        return super()._communication_check() or "warn"

    def rerun_command(self) -> str:
        """One command that runs this test alone, by the drop-in."""
        module = module_import.reference(type(self).__module__)
        target = module.run_as or module.file or module.name
        return f"python -m harness.dropin {target} {type(self).__qualname__}.{self._testMethodName}"

    def _seed_rank(self) -> None:
        """Seeds the rank with upstream's seed."""
        from torch.testing._internal import common_utils

        seeding.seed_all(common_utils.SEED)

    def _read_result(self, result: RankResult) -> RankResult:
        return skips.read_result(result, skips.table())

    def _adjusted_outcomes(self, outcomes: Sequence[RankOutcome]) -> Sequence[RankOutcome]:
        return skips.read_outcomes(outcomes, skips.table())


class UpstreamRanks(_Contract):
    """Fresh ranks for each test of upstream's ``MultiProcessTestCase``.

    A class that overrides or calls ``_start_processes`` starts processes of its own; upstream's methods
    start, join and judge those (``upstream_way``: upstream's methods by name).
    """

    upstream_way: Mapping[str, Callable[..., Any]] = {}
    pid_to_pipe: dict[int, Any]
    _exited_with_zero = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        judge(cls)

    def setUp(self) -> None:
        """Adds the attribute that upstream's own methods need."""
        super().setUp()
        self.pid_to_pipe = {}

    def _read_result(self, result: RankResult) -> RankResult:
        """Counts ``sys.exit(0)`` in a test as a pass, as upstream does."""
        if not skips.exited_with_zero(result):
            return super()._read_result(result)
        self._exited_with_zero = True
        return RankResult(Status.PASSED, subtests=result.subtests, note="by sys.exit(0)")

    def _run_in_rank(self, channel: Any) -> None:
        super()._run_in_rank(channel)
        if self._exited_with_zero:
            raise SystemExit(0)

    def _number_of_ranks(self) -> int:
        """The checked ``world_size``; a skip where it is zero."""
        if self.world_size == 0:
            raise unittest.SkipTest(NO_RANKS)
        return super()._number_of_ranks()

    def _starts_its_own(self) -> bool:
        has_started = self._running is None and bool(self.processes)
        return has_started or getattr(type(self), OWN_START, None) is not self.upstream_way.get(OWN_START)

    def _spawn_processes(self) -> None:
        if self._starts_its_own():
            self.upstream_way["_spawn_processes"](self)
        else:
            super()._spawn_processes()

    def _join_processes(self, fn: Callable[..., object]) -> None:
        __tracebackhide__ = True
        if self._starts_its_own():
            self.upstream_way["_join_processes"](self, fn)
        else:
            super()._join_processes(fn)

    def _check_return_codes(self, fn: Callable[..., object], elapsed_time: float) -> None:
        __tracebackhide__ = True
        if self._starts_its_own():
            self.upstream_way["_check_return_codes"](self, fn, elapsed_time)
        else:
            super()._check_return_codes(fn, elapsed_time)

    def tearDown(self) -> None:
        """Ends the processes that a class has started itself."""
        if self._starts_its_own():
            for process in self.processes:
                process.terminate()
        super().tearDown()


class UpstreamContinuousRanks(_Contract, ContinuousOrchestration):
    """Pooled ranks that keep their process group, for upstream's ``MultiProcContinuousTest``.

    ``_run`` is no part of that contract. A class may still inherit one from a mixin that it shares with
    fresh-rank cases (``FSDPTestMixin``), and that one must not be called.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.enter_by_run()

    @classmethod
    def enter_by_run(cls) -> None:
        """Makes the ranks of this class and its subclasses start in ``UpstreamContinuousRanks._run``."""
        own = UpstreamContinuousRanks.__dict__["_run"]
        if cls._run.__func__ is not own.__func__:  # type: ignore[attr-defined]  # a class method
            cls._run = own  # type: ignore[method-assign]
        for subclass in cls.__subclasses__():
            subclass.enter_by_run()

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        """Runs the rank; where ``_init_pg`` exits with a skip's code, only the test is skipped."""
        try:
            super()._run(rank, test_name, file_name, parent_pipe, **kwargs)
        except SystemExit as ending:
            why = skips.reason(ending, skips.table())
            if why is None or parent_pipe.result is not None:
                raise
            parent_pipe.record(RankResult(Status.SKIPPED, skip_reason=why))
            raise SystemExit(EXIT_SKIPPED) from ending
