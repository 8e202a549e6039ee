"""Tests what a case does in a rank: which code runs there, and how the rank says how its test went."""

from __future__ import annotations

import contextlib
import random
import threading
import unittest
from typing import Any
from unittest import mock

from harness import Status, accepted_output, seeding
from harness.cases import in_rank
from harness.cases.in_rank import CaseInRank
from harness.outcomes import EXIT_ERROR, EXIT_SKIPPED, ErrorInfo
from harness.ranks import process_groups
from harness.ranks.result import RankResult
from suites.selftest.cases.recording_channel import RecordingChannel


class Bodies(CaseInRank, unittest.TestCase):
    """The tests that ranks play here; unittest does not see the names."""

    steps: list[Any]

    def setUpRank(self) -> None:
        type(self).steps = ["setUpRank"]

    def tearDownRank(self) -> None:
        self.steps.append("tearDownRank")

    def setUp(self) -> None:
        raise AssertionError("setUp is for the parent")

    def passes(self) -> None:
        """Passes, and adds a cleanup."""
        self.addCleanup(self.steps.append, "cleanup")
        self.steps.append((self.rank, self.file_name, self.is_master))

    def draws(self) -> None:
        """Draws from the generator that every rank has seeded."""
        self.steps.append(random.random())

    def fails(self) -> None:
        """Fails by an assertion."""
        self.fail("wrong")

    def raises(self) -> None:
        """Raises an exception that is no assertion."""
        raise ValueError("odd")

    def skips(self) -> None:
        """Skips with a reason."""
        self.skipTest("not today")

    def leaves(self) -> None:
        """Leaves with an exit code of its own."""
        raise SystemExit(7)

    def fails_in_a_subtest(self) -> None:
        """Fails in one of two sub-tests."""
        for number in (1, 2):
            with self.subTest(number=number):
                self.assertEqual(number, 1)


def run(method: str, rank: int = 1) -> tuple[RecordingChannel, int | None]:
    """Runs a body as a rank does; returns its channel and the exit code of a SystemExit."""
    channel = RecordingChannel()
    try:
        Bodies._run(rank, method, "/rendezvous", channel)
    except SystemExit as ending:
        return channel, ending.code if isinstance(ending.code, int) else None
    return channel, None


class RunTest(unittest.TestCase):
    """``_run``: a new instance runs the method in the rank."""

    def test_table(self) -> None:
        """The result is recorded in any case; what did not pass ends with upstream's code or the test's."""
        table = (
            ("passes", Status.PASSED, None),
            ("fails", Status.FAILED, EXIT_ERROR),
            ("raises", Status.ERROR, EXIT_ERROR),
            ("skips", Status.SKIPPED, EXIT_SKIPPED),
            ("leaves", Status.ERROR, 7),
            ("fails_in_a_subtest", Status.FAILED, EXIT_ERROR),
        )
        for method, status, code in table:
            with self.subTest(method):
                channel, ended = run(method)
                assert channel.result is not None
                self.assertEqual((channel.result.status, ended), (status, code))

    def test_order(self) -> None:
        """``setUpRank``, the method, ``tearDownRank`` and cleanups run in that order, and no ``setUp``."""
        run("passes", rank=0)
        self.assertEqual(Bodies.steps, ["setUpRank", (0, "/rendezvous", True), "tearDownRank", "cleanup"])
        run("passes", rank=1)
        self.assertIn((1, "/rendezvous", False), Bodies.steps)

    def test_subtests(self) -> None:
        """A sub-test that fails is told at once, and those that pass are in the result too."""
        channel, _ = run("fails_in_a_subtest")
        assert channel.result is not None
        self.assertEqual([s.params for s in channel.failed_subtests], [(("number", "2"),)])
        self.assertEqual(channel.result.subtests[-1], channel.failed_subtests[0])

    def test_generators(self) -> None:
        """Every rank draws the same numbers, and they follow from the base seed."""
        drawn = []
        for rank in (0, 1):
            random.seed(rank)
            run("draws", rank)
            drawn.append(Bodies.steps[1])
        seeding.seed_all(seeding.base_seed())
        self.assertEqual(drawn, [random.random()] * 2)

    def test_accepted_output(self) -> None:
        """Expected output that the test accepted is a part of its result."""
        update = mock.Mock()
        accepted = mock.MagicMock()
        accepted.__enter__.return_value.updates = (update,)
        with mock.patch.object(accepted_output, "collecting", return_value=accepted):
            channel, _ = run("passes")
        assert channel.result is not None
        self.assertEqual(channel.result.accepted, (update.to_json.return_value,))

    def test_parent(self) -> None:
        """An instance that no rank made is the parent's, and no master."""
        case = Bodies("passes")
        self.assertEqual((case.rank, case.is_master), (CaseInRank.MAIN_PROCESS_RANK, False))


class GroupsTest(unittest.TestCase):
    """Process groups that a test leaves in its rank."""

    def destroyed(self, method: str, case: Any = Bodies) -> bool:
        """Runs a body; says whether the rank then ended its process groups."""
        destroy_on_exit = mock.patch.object(process_groups, "destroy_on_exit")
        with destroy_on_exit as destroy, contextlib.suppress(SystemExit):
            case._run(0, method, "", RecordingChannel())
        return bool(destroy.called)

    def test_only_after_a_pass(self) -> None:
        """They are destroyed after a pass only: peers of another rank may still wait in them."""
        bodies = ("passes", "fails", "skips", "leaves")
        self.assertEqual([self.destroyed(body) for body in bodies], [True, False, False, False])

    def test_override(self) -> None:
        """A class can keep them."""
        keeps = type("Keeps", (Bodies,), {"destroy_pg_upon_exit": False})
        self.assertFalse(self.destroyed("passes", keeps))


class FinishTest(unittest.TestCase):
    """``finish_in_rank``, which records a result and ends the rank's method accordingly."""

    def test_own_ending(self) -> None:
        """The test's own SystemExit goes on, so that its code is the rank's."""
        ending, channel = SystemExit(3), RecordingChannel()
        result = RankResult(Status.ERROR, ErrorInfo("SystemExit", "3", ""), ending=ending)
        with self.assertRaises(SystemExit) as caught:
            in_rank.finish_in_rank(channel, result)
        self.assertIs(caught.exception, ending)
        self.assertIs(channel.result, result)


class Kept:
    """A case with a precision for each thread, as torch's cases for a device type have it."""

    def __init__(self) -> None:
        self._tls = threading.local()
        self._tls.precision, self._tls.rel_tol = 0.1, 0.2

    @property
    def precision(self) -> float:
        """The calling thread's absolute tolerance."""
        return float(self._tls.precision)

    @property
    def rel_tol(self) -> float:
        """The calling thread's relative tolerance."""
        return float(self._tls.rel_tol)


class TolerancesTest(unittest.TestCase):
    """Tolerances of cases that keep them by thread."""

    def test_another_thread(self) -> None:
        """A thread without tolerances is given those of its parent, and one that has some keeps them."""
        case, found = Kept(), []
        wanted = in_rank.tolerances(case)
        self.assertEqual(wanted, (0.1, 0.2))

        def rank() -> None:
            in_rank.set_tolerances(case, wanted)
            found.append(in_rank.tolerances(case))
            in_rank.set_tolerances(case, (5.0, 6.0))
            found.append(in_rank.tolerances(case))

        thread = threading.Thread(target=rank)
        thread.start()
        thread.join()
        self.assertEqual(found, [(0.1, 0.2)] * 2)

    def test_other_cases(self) -> None:
        """A case that does not keep tolerances by thread is left alone."""
        case = Bodies("passes")
        before = dict(vars(case))
        self.assertIsNone(in_rank.tolerances(case))
        in_rank.set_tolerances(case, (5.0, 6.0))
        self.assertEqual(vars(case), before)


if __name__ == "__main__":
    unittest.main()
