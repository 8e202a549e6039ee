"""Tests upstream's two multi-process contracts on the harness's ranks, on cases that stand for upstream's.

``test_ranks_verdicts`` runs whole files of upstream's style.
"""

from __future__ import annotations

import os
import pickle
import sys
import unittest
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from unittest import mock

import torch
from torch.testing._internal import common_distributed, common_utils

from harness import RankOutcome, Status, timeout
from harness.dropin.ranks import UpstreamContinuousRanks, UpstreamRanks
from harness.outcomes import EXIT_SKIPPED
from harness.settings import Settings
from suites.selftest.cases.recording_channel import RecordingChannel

SKIP = common_distributed.TEST_SKIPS["generic"]
CRASHED = RankOutcome(1, Status.CRASHED, exit_code=SKIP.exit_code)


class Fresh(UpstreamRanks, unittest.TestCase):
    """A case that starts no processes of its own; unittest sees no test in it."""

    upstream_way: Mapping[str, Callable[..., Any]] = {}  # not what another test has installed
    drawn: ClassVar[list[float]] = []

    def passes(self) -> None:
        """Passes, and draws a random number."""
        self.drawn.append(torch.rand(1).item())

    def leaves(self) -> None:
        """Leaves as tests of the wheel do that want nothing of what would follow."""
        sys.exit(0)

    def leaves_after_a_failure(self) -> None:
        """Leaves likewise, after a sub-test that failed."""
        with self.subTest():
            self.fail("wrong")
        sys.exit(0)

    def skips_by_exit_code(self) -> None:
        """Leaves with the exit code that upstream's decorators use for a skip."""
        sys.exit(SKIP.exit_code)

    @timeout(7)
    def has_a_deadline(self) -> None:
        """Has a deadline of its own."""


def run(method: str, case: Any = Fresh, rank: int = 0, **kwargs: Any) -> tuple[RecordingChannel, Any]:
    """Runs a method as a rank does; returns its channel, and the code of a SystemExit or ``"returned"``."""
    channel = RecordingChannel()
    try:
        case._run(rank, method, "/rendezvous", channel, **kwargs)
    except SystemExit as ending:
        return channel, ending.code
    return channel, "returned"


class RankTest(unittest.TestCase):
    """What a rank of upstream's ``MultiProcessTestCase`` does."""

    def test_ends(self) -> None:
        """``sys.exit(0)`` is a pass that still ends the process, and a skip's exit code is a skip."""
        for method, status, code in (
            ("passes", Status.PASSED, "returned"),
            ("leaves", Status.PASSED, 0),
            ("leaves_after_a_failure", Status.ERROR, 0),
            ("skips_by_exit_code", Status.SKIPPED, EXIT_SKIPPED),
        ):
            with self.subTest(method):
                channel, ended = run(method)
                assert channel.result is not None
                self.assertEqual((channel.result.status, ended), (status, code))
                wanted = SKIP.message if status is Status.SKIPPED else None
                self.assertEqual(channel.result.skip_reason, wanted)

    def test_seed(self) -> None:
        """The generators have upstream's seed."""
        run("passes")
        torch.manual_seed(common_utils.SEED)
        self.assertEqual(Fresh.drawn[-1], torch.rand(1).item())

    def test_pickled(self) -> None:
        """A case can be sent to another process, as tests do over rpc, without what belongs to the run."""
        case = Fresh("passes")
        case._running = object()  # type: ignore[assignment]  # nothing that can be pickled
        case._outcome = lambda: None  # type: ignore[attr-defined]  # as unittest sets it
        del case.passes  # the instance's wrapper, which upstream's pickled cases do not have either
        sent = pickle.loads(pickle.dumps(case))
        self.assertEqual((sent._running, sent._outcome, sent.id()), (None, None, case.id()))


class ParentTest(unittest.TestCase):
    """What the parent of upstream's ``MultiProcessTestCase`` does."""

    def test_deadline(self) -> None:
        """A test's own deadline goes before the run's, and that before upstream's for the test."""
        settings = Settings(timeout_s=30.0)
        upstreams = {Fresh("passes").id(): 41}
        with mock.patch.object(common_distributed, "get_timeout", upstreams.__getitem__):
            for method, variable, wanted in (
                ("has_a_deadline", "30", 7.0),
                ("passes", "30", 30.0),
                ("passes", "", 41.0),
            ):
                with self.subTest(method, variable=variable), mock.patch.dict(os.environ):
                    os.environ["HARNESS_TIMEOUT"] = variable
                    self.assertEqual(Fresh(method)._timeout_s(settings), wanted)
                    slower = Settings(timeout_s=30.0, timeout_multiplier=3.0)
                    self.assertEqual(Fresh(method)._timeout_s(slower), 3 * wanted)

    def test_no_ranks(self) -> None:
        """A world size of zero, which a number of GPUs can be, is a skip; another wrong one is an error."""
        with mock.patch.object(Fresh, "world_size", 0), self.assertRaisesRegex(unittest.SkipTest, "is 0"):
            Fresh("passes")._number_of_ranks()
        with mock.patch.object(Fresh, "world_size", -1), self.assertRaisesRegex(ValueError, "-1"):
            Fresh("passes")._number_of_ranks()

    def test_rerun_command(self) -> None:
        """The command runs the test on the harness's ranks, from the file that defines it."""
        wanted = f"python -m harness.dropin {os.path.abspath(__file__)} Fresh.passes"
        self.assertEqual(Fresh("passes").rerun_command(), wanted)

    def test_rank_that_dies_with_the_code_of_a_skip(self) -> None:
        """A rank that never reported and left with a skip's exit code has skipped."""
        (outcome,) = Fresh("passes")._adjusted_outcomes([CRASHED])
        self.assertEqual((outcome.status, outcome.skip_reason), (Status.SKIPPED, SKIP.message))


class OwnStart(Fresh):
    """A case that overrides how its processes are started."""

    def _start_processes(self, proc: Any) -> None:
        """Does nothing."""


class OwnProcessesTest(unittest.TestCase):
    """Classes that start processes of their own."""

    def setUp(self) -> None:
        """Puts stand-ins in the place of upstream's methods."""
        names = ("_spawn_processes", "_join_processes", "_check_return_codes", "_start_processes")
        self.way = {name: mock.Mock() for name in names}
        patch = mock.patch.object(Fresh, "upstream_way", self.way)
        patch.start()
        self.addCleanup(patch.stop)

    def called(self) -> set[str]:
        """Returns the names of the stand-ins that were called."""
        return {name for name, method in self.way.items() if method.called}

    def test_upstreams_way(self) -> None:
        """They are started, joined and judged by upstream's methods, and ended when the test is over."""
        case, process = OwnStart("passes"), mock.Mock()
        case.setUp()
        self.assertEqual(case.pid_to_pipe, {})
        case._spawn_processes()
        case._join_processes(case.passes)
        case._check_return_codes(case.passes, 1.0)
        self.assertEqual(self.called(), {"_spawn_processes", "_join_processes", "_check_return_codes"})
        self.way["_check_return_codes"].assert_called_once_with(case, case.passes, 1.0)
        case.processes = [process]
        case.tearDown()
        process.terminate.assert_called_once_with()
        case.doCleanups()

    def test_started_without_an_override(self) -> None:
        """A class that merely called ``_start_processes`` is joined by upstream's method, too."""
        with mock.patch.object(Fresh, "_start_processes", self.way["_start_processes"], create=True):
            case = Fresh("passes")
            case.processes = [mock.Mock()]
            case._join_processes(case.passes)
        self.assertEqual(self.called(), {"_join_processes"})


class Continuous(UpstreamContinuousRanks, unittest.TestCase):
    """A case on pooled ranks whose group cannot be made: ``why`` is the exit code with which that ends."""

    why: ClassVar[int] = SKIP.exit_code
    world_size = 1

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        sys.exit(cls.why)

    def passes(self) -> None:
        """Passes."""


class Mixin:
    """A mixin for cases on fresh ranks, which overrides how a rank begins."""

    @classmethod
    def _run(cls, *args: Any, **kwargs: Any) -> None:
        raise AssertionError("not for pooled ranks")


class ContinuousTest(unittest.TestCase):
    """Ranks of upstream's ``MultiProcContinuousTest``."""

    def test_skip_while_the_group_is_made(self) -> None:
        """A rank that leaves ``_init_pg`` with a skip's exit code skips this test with upstream's reason."""
        channel, code = run("passes", Continuous, world_size=1)
        assert channel.result is not None
        self.assertEqual((channel.result.status, code), (Status.SKIPPED, EXIT_SKIPPED))
        self.assertEqual(channel.result.skip_reason, SKIP.message)

    def test_other_exits(self) -> None:
        """Any other exit ends the rank with that code, and records nothing."""
        with mock.patch.object(Continuous, "why", 1):
            channel, code = run("passes", Continuous, world_size=1)
        self.assertEqual((channel.result, code), (None, 1))

    def test_recorded_result_stays(self) -> None:
        """A test that has recorded its result is not made a skip by how its rank ends afterwards."""

        def leave(*args: Any, **kwargs: Any) -> None:
            args[-1].record(RESULT)
            sys.exit(SKIP.exit_code)

        with mock.patch("harness.cases.continuous.ContinuousOrchestration._run", leave):
            channel, code = run("passes", Continuous)
        self.assertEqual((channel.result, code), (RESULT, SKIP.exit_code))

    def test_run_of_a_mixin(self) -> None:
        """A class that inherits ``_run`` from a mixin begins in the harness's, and so do its subclasses."""
        mixed = type("Mixed", (Mixin, Continuous), {})
        for case in (mixed, type("Below", (mixed,), {})):
            with self.subTest(case.__name__):
                _, code = run("passes", case, world_size=1)
                self.assertEqual(code, EXIT_SKIPPED)

    def test_enter_by_run(self) -> None:
        """``enter_by_run`` reaches subclasses that exist already."""
        below = type("Below", (Continuous,), {})
        below._run = classmethod(lambda cls, *args, **kwargs: None)  # type: ignore[attr-defined]  # any
        self.assertEqual(run("passes", below)[1], "returned")
        Continuous.enter_by_run()
        self.assertEqual(run("passes", below, world_size=1)[1], EXIT_SKIPPED)


RESULT: Any = object()

if __name__ == "__main__":
    unittest.main()
