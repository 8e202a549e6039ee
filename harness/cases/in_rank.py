"""``CaseInRank``: the instance of a case in a rank, which runs the test and records its result.

``multiprocess`` is the parent's side of the same class.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness import accepted_output, seeding
from harness.cases.defaults import await_devices
from harness.communication.expected import Expected, mismatch
from harness.communication.history import Communication, record_communication
from harness.outcomes import EXIT_ERROR, EXIT_SKIPPED, Status
from harness.ranks import process_groups, rendezvous
from harness.ranks.result import RankResult, run_body
from harness.system.fork_safety import IMPORTED
from harness.testcase import TestCase

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# The mixin has no base class; the class that it is mixed into is a TestCase, which mypy cannot know.
if TYPE_CHECKING:
    from unittest import TestCase as _AnyTestCase
else:
    _AnyTestCase = object


class CaseInRank(_AnyTestCase):
    """What each rank does with its instance of a case. The names and their meanings are upstream's."""

    MAIN_PROCESS_RANK = -1
    TEST_ERROR_EXIT_CODE = EXIT_ERROR

    rank: int = MAIN_PROCESS_RANK
    _file_name: str = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "<locals>" not in cls.__qualname__:  # made by a function, maybe long after its module's import
            IMPORTED.note()

    @property
    def destroy_pg_upon_exit(self) -> bool:
        """Whether a rank destroys the process groups that a passed test has left.

        Groups whose backends are all gloo or fake end with the process instead. That is the same for peers,
        since no rank exits before all have reported, and saves 10 to 20 ms a rank.
        """
        return True

    @property
    def file_name(self) -> str:
        """The file at which the test's ranks can meet; LaunchError in ranks whose hosts do not share it."""
        return rendezvous.shared_file(self._file_name)

    @file_name.setter
    def file_name(self, path: str) -> None:
        """Sets the file, in the parent or by whoever starts the rank."""
        self._file_name = path

    @property
    def master_addr(self) -> str:
        """The address of rank 0's host for a store or server of rank 0; 127.0.0.1 where there is one host."""
        return rendezvous.master_addr()

    @property
    def host_addr(self) -> str:
        """The address of this rank's host for what the rank serves; 127.0.0.1 where there is one host."""
        return rendezvous.host_addr()

    @property
    def is_master(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def setUpRank(self) -> None:
        """Runs in each rank before the test method."""

    def tearDownRank(self) -> None:
        """Runs in each rank after the test method, before the rank's cleanups."""

    def assertCommunication(
        self, expected: Expected, seen: Communication | None = None, msg: str | None = None
    ) -> contextlib.AbstractContextManager[Communication]:
        """Fails unless this rank's collectives and messages are as expected. In a rank's test only.

        As a context manager it looks at the calls that begin in its body, else at those in ``seen``, a value
        of ``harness.recorded_communication()`` or ``harness.record_communication()``. ``expected`` is a list
        with a line for each call, in order, or a dict from line to how often, in any order. A line is an
        operation and as many of its details as matter, in the order in which ``seen.lines`` has them::

            with self.assertCommunication(["all_reduce 4096 bytes on {0, 1}"] * 2):
                loss.backward()
            with self.assertCommunication({"all_gather_into_tensor": 4, "reduce_scatter_tensor": 4}):
                step()

        UsageError where nothing is recorded: outside of a rank.
        """
        __tracebackhide__ = True
        if seen is None:
            return _Communicates(lambda seen: self.assertCommunication(expected, seen, msg))
        found = mismatch(expected, seen)
        if found:
            self.fail(self._formatMessage(msg, found))
        return contextlib.nullcontext(seen)

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        """The rank's entry point: runs the method on a new instance. An override calls ``run_test``."""
        self = cls(test_name)
        self.rank = rank
        self.file_name = file_name
        self.run_test(test_name, parent_pipe)

    def run_test(self, test_name: str, parent_pipe: Any) -> None:
        """Runs the test method in this rank and records its result on ``parent_pipe``.

        Returns only if it passed. Otherwise raises SystemExit with upstream's exit code, so that the rest of
        an overridden ``_run`` is not executed in a rank that failed or skipped.
        """
        self._run_in_rank(parent_pipe)
        if self.destroy_pg_upon_exit:
            process_groups.destroy_on_exit()

    def _run_in_rank(self, channel: Any) -> None:
        """Seeds, runs the method, and records the result."""
        self._seed_rank()
        set_tolerances(self, (TestCase.precision, TestCase.rel_tol))
        with accepted_output.collecting() as accepted:
            result = run_body(self, self.setUpRank, self._end_in_rank, channel.subtest_failed)
        result = self._read_result(result)
        if accepted.updates:
            result = replace(result, accepted=tuple(u.to_json() for u in accepted.updates))
        finish_in_rank(channel, result)

    def _end_in_rank(self) -> None:
        """Runs after the method: an error that it has left on an accelerator is this test's."""
        try:
            await_devices()
        finally:
            self.tearDownRank()

    def _seed_rank(self) -> None:
        """Seeds the generators of this rank with the seed that all ranks use."""
        seeding.seed_all(seeding.base_seed())

    def _read_result(self, result: RankResult) -> RankResult:
        """The rank's result by the rules of this class, a hook like ``_adjusted_outcomes`` in the parent."""
        return result


class _Communicates:
    """A region that gives its communication to ``check`` at its end, unless an exception leaves it."""

    def __init__(self, check: Callable[[Communication], object]) -> None:
        self._check = check
        self._region = record_communication()

    def __enter__(self) -> Communication:
        self._seen = self._region.__enter__()
        return self._seen

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        self._region.__exit__(None, None, None)
        if kind is None:
            self._check(self._seen)


def tolerances(case: Any) -> tuple[float, float] | None:
    """The (absolute, relative) tolerances of a case that keeps them by thread; None for any other case.

    torch's cases for a device type keep them by thread.
    """
    return (case.precision, case.rel_tol) if hasattr(case, "_tls") else None


def set_tolerances(case: Any, wanted: tuple[float, float] | None) -> None:
    """Sets the calling thread's tolerances, where the case keeps them by thread and has none for this one."""
    if wanted is not None and hasattr(case, "_tls") and not hasattr(case._tls, "precision"):
        case._tls.precision, case._tls.rel_tol = wanted


def finish_in_rank(channel: Any, result: RankResult) -> None:
    """Records the test's result in this rank; raises SystemExit, as upstream's ranks do, unless it passed."""
    channel.record(result)
    if result.ending is not None:
        raise result.ending
    if result.status is Status.SKIPPED:
        raise SystemExit(EXIT_SKIPPED)
    if result.status is not Status.PASSED:
        raise SystemExit(EXIT_ERROR)
