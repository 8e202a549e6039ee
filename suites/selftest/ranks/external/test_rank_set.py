"""Tests how processes that somebody else started find each other at a store."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from harness import RankOutcome, Status
from harness.errors import LaunchError
from harness.ranks.external import rank_set
from harness.ranks.external.launcher_environment import LauncherEnvironment
from harness.ranks.external.outcome_log import LoggedOutcome
from harness.ranks.external.rank_set import ExternalRankSet
from harness.ranks.external.unittest_run import UnittestRun
from suites.selftest.ranks.external.bodies import new_store


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides what torch's C++ code prints about a connection that fails."""
    before = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


class ExternalRankSetTest(unittest.TestCase):
    """The rank set of processes that meet at a store, played by threads."""

    def setUp(self) -> None:
        self.store = new_store()
        temporary = tempfile.mkdtemp(prefix="harness-selftest-")
        self.addCleanup(shutil.rmtree, temporary)
        patch = mock.patch.object(tempfile, "tempdir", temporary)
        patch.start()
        self.addCleanup(patch.stop)

    def place(self, rank: int, size: int = 2) -> LauncherEnvironment:
        """Returns the launcher environment of a rank whose store is the one of this test."""
        return LauncherEnvironment(rank, size, "127.0.0.1", self.store.port, agent_store=True)

    def together(
        self,
        *places: LauncherEnvironment,
        timeout_s: float = 30.0,
        run: Callable[[LauncherEnvironment], UnittestRun | None] = lambda place: None,
    ) -> list[Any]:
        """Returns the rank set that each place gets, or the LaunchError that it gets instead."""
        found: list[Any] = [None] * len(places)

        def come(number: int) -> None:
            try:
                found[number] = ExternalRankSet(places[number], timeout_s, run(places[number]))
            except LaunchError as error:
                found[number] = error

        threads = [threading.Thread(target=come, args=(number,)) for number in range(len(places))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def test_rendezvous(self) -> None:
        """All processes get the same rendezvous file, a new one for each test, and it goes with rank 0."""
        both = self.together(self.place(0), self.place(1))
        paths = []
        for test in ("one", "two", "one"):
            for each in both:
                each.begin(test)
            first, second = (each.rendezvous(test) for each in both)
            self.assertEqual(first, second)
            self.assertTrue(os.path.exists(first))
            paths.append(first)
        self.assertEqual(len(set(paths)), 3)
        leaving = threading.Thread(target=both[1].leave, args=(30.0,))
        leaving.start()
        both[0].leave(30.0)
        leaving.join()
        self.assertFalse(os.path.exists(os.path.dirname(paths[0])))

    def test_no_shared_directory(self) -> None:
        """A directory that the processes do not share is an error in one line that says what to do."""
        both = self.together(self.place(0), self.place(1))
        shutil.rmtree(os.path.dirname(both[0].rendezvous("a test")))
        with self.assertRaisesRegex(LaunchError, "^rank 1 cannot use rank 0's .*: set TMPDIR"):
            both[1].rendezvous("a test")

    def test_late(self) -> None:
        """A process that comes after the others have given up is told so at once."""
        with quiet():
            (first,) = self.together(self.place(0), timeout_s=0.1)
        self.assertIsInstance(first, LaunchError)
        self.assertRegex(str(first), "^rank 1 did not come: rank 0 of 2 waited 0.1 s")
        (second,) = self.together(self.place(1))
        self.assertRegex(str(second), "^rank 0 had given up")

    def test_again(self) -> None:
        """Two programs in turn on one store do not see what the other left there."""
        for _ in range(2):
            both = self.together(self.place(0), self.place(1))
            logs = [each.begin("a test") for each in both]
            self.assertIsNone(logs[0].read(0, 0.01))
            logs[1].append(RankOutcome(1, Status.PASSED))
            self.assertEqual(logs[0].read(0, 10.0), LoggedOutcome(RankOutcome(1, Status.PASSED), lost=False))

    def test_no_store(self) -> None:
        """If nobody listens at the store's address, the error is one line."""
        where = self.place(1)
        del self.store
        said = r"\Arank 1 finds no store at 127\.0\.0\.1:\d+ within 0.3 s: .*\Z"
        with self.assertRaisesRegex(LaunchError, said), quiet():
            ExternalRankSet(where, 0.3)

    def test_require(self) -> None:
        """A test gets its ranks unless it asks for more than were started or for one that is lost."""
        both = self.together(self.place(0), self.place(1))
        both[0].require(2)
        with self.assertRaisesRegex(LaunchError, "asks for 3 ranks, and 2 were started"):
            both[0].require(3)
        both[0].lost[1] = "a test in which it died"
        both[0].require(1)
        with self.assertRaisesRegex(LaunchError, "rank 1 cannot take part any more, since a test in which"):
            both[0].require(2)

    def test_whereabouts(self) -> None:
        """The log tells the last test that a rank began, which this process counts."""
        both = self.together(self.place(0), self.place(1))
        for test in ("one", "two", "one"):
            log = both[0].begin(test)
        self.assertEqual((both[0].times("one"), both[0].times("two"), both[1].times("one")), (2, 1, 0))
        self.assertEqual(log.last_test_of(0), "the last test that it began is one")
        self.assertEqual(log.last_test_of(1), "it has begun no test")

    def test_lost(self) -> None:
        """The log says of an outcome whether its rank is lost for later tests."""
        both = self.together(self.place(0), self.place(1))
        log, other = (each.begin("a test") for each in both)
        log.append(RankOutcome(1, Status.CRASHED), lost=True)
        self.assertEqual(other.read(0, 10.0), LoggedOutcome(RankOutcome(1, Status.CRASHED), lost=True))

    def test_own_rank_set(self) -> None:
        """A process that cannot have a rank set tries once, and meets the same error each time it asks."""
        refused = mock.Mock(side_effect=LaunchError("rank 1 did not come"))
        with (
            mock.patch("os.getpid", return_value=-1),  # so that this process keeps nothing of it
            mock.patch.object(rank_set, "launcher_environment", refused),
        ):
            for _ in range(2):
                with self.assertRaisesRegex(LaunchError, "^rank 1 did not come$"):
                    rank_set.own_rank_set({}, 1.0, 1.0)
        refused.assert_called_once_with({})

    def test_refused(self) -> None:
        """Processes that cannot work together have the same error, each of them, and leave nothing behind."""
        places = (self.place(0), self.place(1))
        others = UnittestRun(unittest.FunctionTestCase(lambda: None))
        runs = dict(zip(places, (UnittestRun(self), others), strict=True))
        found = self.together(*places, run=runs.__getitem__)
        said = {str(each) for each in found}
        self.assertEqual(len(said), 1)
        self.assertRegex(
            said.pop(), "^ranks 0 and 1 .* cannot work together: rank 0 runs .*test_refused, and rank 1"
        )
        self.assertEqual(os.listdir(tempfile.gettempdir()), [])

    def test_who_speaks(self) -> None:
        """Rank 0 reports; another rank where all below it are lost, or where the store is gone."""
        both = self.together(self.place(0), self.place(1))
        self.assertEqual([each.speaks for each in both], [True, False])
        both[1].lost[0] = "a test"
        self.assertTrue(both[1].speaks)
        self.assertEqual(list(both[1].begun), [])
        both[1].begin("one")
        self.assertEqual(list(both[1].begun), ["one"])
        again = self.together(self.place(0), self.place(1))
        again[1].store_gone(RuntimeError("gone"))
        self.assertTrue(again[1].speaks)

    def test_over(self) -> None:
        """Where the launcher ends the job, a rank waits neither for words nor for the others' end."""
        both = self.together(self.place(0), self.place(1))
        log = both[0].begin("a test")
        both[0].over.set()
        self.assertIsNone(log.read(0, 3600.0, both[0].over))
        both[0].leave(3600.0)


if __name__ == "__main__":
    unittest.main()
