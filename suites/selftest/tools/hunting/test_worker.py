"""Tests one seed of a hunt, with a fuzzer that has a planted bug: found, shrunk, confirmed, noted."""

from __future__ import annotations

import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from harness.fuzzing import hunted
from harness.fuzzing.hunted import Rejected
from harness.fuzzing.signature import Failure, Kind
from suites.selftest.tools.hunting.test_schedules import READ_FIRST, SET_FIRST
from suites.selftest.tools.planted.fuzzers import PLANTED
from tools.hunting import journal, schedules, worker
from tools.hunting.journal import Batch, Find
from tools.hunting.worker import ALL_UP_TO, TIMED_OUT, Task, confirmed, releases_of, run

HERE = {"here": sys.executable}
WRONG = Failure(Kind.WRONG, "sum #")


@mock.patch.dict(hunted.FUZZERS, PLANTED)
class RunTest(unittest.TestCase):
    def hunt(self, until_s: float, seen: int = 0) -> list[Batch | Find]:
        with tempfile.TemporaryDirectory() as name:
            task = Task("odd sums", 5, until_s, Path(name), HERE)
            task.seen[WRONG] = seen
            run(task)
            return journal.read(Path(name))

    def test_find(self) -> None:
        find, batch = self.hunt(time.time() + 600)
        assert isinstance(find, Find) and isinstance(batch, Batch)
        self.assertEqual((batch.ran, batch.rejected, batch.failed), (2, 1, 1))
        self.assertEqual(find.signature.failure, WRONG)
        self.assertIn("(13,)", find.script)
        self.assertEqual(find.releases, {"here": "silently wrong: sum #"})
        self.assertEqual((find.seed, find.number, find.shrunk), (5, 1, True))

    def test_variant(self) -> None:
        """A variant's find has the signature of its fuzzer, and says with which its seed draws it again."""
        with mock.patch.object(hunted.Hunted, "variant_of", "sums"):
            find, _ = self.hunt(time.time() + 600)
        assert isinstance(find, Find)
        self.assertEqual((find.signature.fuzzer, find.drawn_by), ("sums", "odd sums"))

    def test_failures_that_are_frequent_are_not_all_shrunk(self) -> None:
        with mock.patch.object(worker, "ONE_IN", 1 << 60):
            find, _ = self.hunt(time.time() + 600, seen=ALL_UP_TO)
        assert isinstance(find, Find)
        self.assertEqual((find.shrunk, find.releases), (False, {}))

    def test_near(self) -> None:
        """What failed is noted as it was, and is changed; each find is shrunk."""
        with tempfile.TemporaryDirectory() as name, mock.patch.object(worker, "PROGRAMS", 8):
            task = Task("odd sums", 5, time.time() + 600, Path(name), HERE, near=True)
            task.seen[WRONG] = ALL_UP_TO
            with mock.patch.object(worker, "ONE_IN", 1 << 60):
                run(task)
                *finds, _ = journal.read(Path(name))
        first, *others = (find.program for find in finds if isinstance(find, Find))
        self.assertEqual(first, [5, 13, 2])
        self.assertTrue(others)
        for program in others:
            self.assertEqual(program[:2], [5, 13])
        self.assertTrue(all(find.shrunk for find in finds if isinstance(find, Find)))

    def test_programs_of_a_seed(self) -> None:
        """A seed has programs without end, perhaps; other fuzzers get their turn."""
        with mock.patch.object(worker, "PROGRAMS", 1):
            (batch,) = self.hunt(time.time() + 600)
        assert isinstance(batch, Batch)
        self.assertEqual(batch.ran + batch.rejected, 1)

    def test_no_time_is_left(self) -> None:
        (batch,) = self.hunt(time.time() - 1)
        assert isinstance(batch, Batch)
        self.assertEqual(batch.ran, 0)

    def test_race(self) -> None:
        """What fails under its delays alone is found, with delays under which it passes."""
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(schedules, "delays_of", lambda *_: READ_FIRST),
            mock.patch.object(schedules, "OTHERS", (SET_FIRST,)),
        ):
            run(Task("racing", 5, time.time() + 600, Path(name), HERE))
            find, batch = journal.read(Path(name))
        assert isinstance(find, Find) and isinstance(batch, Batch)
        self.assertEqual((batch.ran, batch.failed, find.number), (2, 1, 1))
        self.assertEqual(find.releases, {"here": ""})
        self.assertTrue(find.is_race, find.schedules)


class TimedOutTest(unittest.TestCase):
    def ended(self, ends: list[Failure | None], *waited_s: float) -> tuple[Failure | None, list[float]]:
        """How a program of a second fails whose plays end so, and how many times its time each again got."""
        fuzzer = mock.Mock(timeout_s=1.0)
        waiting = mock.MagicMock()
        type(waiting.return_value.__enter__.return_value).seconds = mock.PropertyMock(side_effect=waited_s)
        with (
            mock.patch.object(worker, "played", side_effect=ends) as played,
            mock.patch.object(worker, "Waiting", waiting),
        ):
            failure = worker._failure_of(fuzzer, 0, None)
        return failure, [call.kwargs["patience"] for call in played.mock_calls[1:]]

    def test_it_had_its_time(self) -> None:
        self.assertEqual(self.ended([TIMED_OUT, TIMED_OUT], 0.5), (TIMED_OUT, [2.0]))

    def test_it_waited_for_a_processor(self) -> None:
        ends: list[Failure | None] = [TIMED_OUT, TIMED_OUT, TIMED_OUT]
        self.assertEqual(self.ended(ends, 1.5, 2.5), (TIMED_OUT, [2.0, 3.5]))
        self.assertEqual(self.ended([TIMED_OUT, TIMED_OUT, None], 1.5, 0.0), (None, [2.0, 3.5]))

    def test_other_failures_are_not_played_again(self) -> None:
        for failure in (WRONG, Failure(Kind.HANGS, "deadlocked")):
            self.assertEqual(self.ended([failure]), (failure, []))

    def test_a_machine_without_time_finds_nothing(self) -> None:
        with self.assertRaisesRegex(Rejected, "no time"):
            self.ended([TIMED_OUT] * 4, 2.0, 4.0, 8.0)


class ConfirmedTest(unittest.TestCase):
    def test_pass_and_failure(self) -> None:
        self.assertEqual(confirmed("pass", 0, HERE), {"here": ""})
        self.assertEqual(confirmed("assert False, 'sum'", 0, HERE), {"here": "silently wrong: sum"})

    def test_releases(self) -> None:
        import torch

        self.assertEqual(releases_of([sys.executable, sys.executable]), {torch.__version__: sys.executable})


if __name__ == "__main__":
    unittest.main()
