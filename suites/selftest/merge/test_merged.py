"""Tests which results of several parts count, and what is absent, on values."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.merge.merged import absences, absent_text, merged, results, without_shard
from harness.merge.parts import Part
from harness.outcomes import Status
from suites.selftest.merge.samples import ALL, halves, part, record

FAILED, PASSED = Status.FAILED, Status.PASSED


def told(parts: tuple[Part, ...]) -> list[tuple[str, int, str, bool]]:
    """The attempts that count: the test's number, the attempt, status, and whether it is flaky."""
    found = [(r.id[-1], r.attempt, r.status.value, r.flaky) for r in results(parts)]
    return sorted(found)


class ResultsTest(unittest.TestCase):
    """Which attempts count."""

    def test_shards(self) -> None:
        """Disjoint shards give all their results, in the order in which the tests ended, by shard and
        worker."""
        one, two = halves()
        late = part(
            (1, 2), "13", [record("1", started_at=105.0), record("3", started_at=101.0, duration_s=1)]
        )
        found = results((late, two))
        self.assertEqual([r.id[-1] for r in found], ["2", "4", "3", "1"])
        self.assertEqual({r.worker for r in found}, {"1.1", "2.1"})
        self.assertEqual(results((part(None, "1234", [record("1")]),))[0].worker, "1")
        self.assertEqual(len(results((one, two))), 4)

    def test_shard_that_ran_again(self) -> None:
        """The newest result counts.

        What failed before stays as an earlier attempt; what passed before goes.
        """
        for before, after, wanted in (
            (PASSED, PASSED, [(1, "passed", False)]),
            (FAILED, PASSED, [(1, "failed", False), (2, "passed", True)]),
            (PASSED, FAILED, [(1, "failed", False)]),
            (FAILED, FAILED, [(1, "failed", False), (2, "failed", False)]),
            (FAILED, Status.SKIPPED, [(1, "failed", False), (2, "skipped", False)]),
        ):
            with self.subTest(before=before, after=after):
                old = part((1, 2), "1", [record("1", before)])
                new = part((1, 2), "1", [record("1", after, started_at=201.0)], started_at=200.0)
                self.assertEqual([each[1:] for each in told((old, new))], wanted)

    def test_reruns_within_a_part(self) -> None:
        """Reruns of the newest part follow the failures of the older one; alone they stay as they are."""
        reruns = [record("1", FAILED), record("1", PASSED, attempt=2, flaky=True)]
        new = part((1, 2), "1", [replace(each, started_at=201.0) for each in reruns], started_at=200.0)
        alone = [("1", 1, "failed", False), ("1", 2, "passed", True)]
        self.assertEqual(told((new,)), alone)
        old = part((1, 2), "1", [record("1", Status.CRASHED)])
        behind = [("1", 2, "failed", False), ("1", 3, "passed", True)]
        self.assertEqual(told((old, new)), [("1", 1, "crashed", False), *behind])

    def test_journal_that_was_copied_and_gone_on_with(self) -> None:
        """An attempt that two journals have is one attempt, and no flaky one."""
        old = part((1, 2), "13", [record("1", FAILED)], ended=None)
        new = part((1, 2), "13", [record("1", FAILED), record("3")])
        self.assertEqual(told((old, new)), [("1", 1, "failed", False), ("3", 1, "passed", False)])

    def test_repeats(self) -> None:
        """Each repeat has its own result."""
        old = part(None, "1", [record("1"), record("1", FAILED, repeat=2)])
        new = part(None, "1", [record("1", repeat=2, started_at=201.0)], started_at=200.0)
        self.assertEqual(len(told((old, new))), 3)


class AbsenceTest(unittest.TestCase):
    """What has no result."""

    def lines(self, *parts: Part) -> list[str]:
        """The lines about what is absent."""
        return [absent_text(each, 2) for each in absences(parts, results(parts))]

    def test_nothing(self) -> None:
        """Shards with all results lack nothing, and neither do shards whose tests are all elsewhere."""
        self.assertEqual(self.lines(*halves()), [])
        whole = part((1, 3), "1234", [record(number) for number in "1234"])
        self.assertEqual(self.lines(whole), [])

    def test_shard(self) -> None:
        """A shard without a directory is named, with its tests."""
        one, two = halves()
        self.assertEqual(
            self.lines(two),
            ["absent: 2 tests of shard 1/2, of which there is no directory: m.T.test_1, m.T.test_3"],
        )
        alone = part((2, 4), "2", [record("2")])
        line = "absent: 3 tests of shards 1/4, 3/4, 4/4, of which there is no directory: "
        self.assertEqual(self.lines(alone), [line + "m.T.test_1, m.T.test_3, and 1 more"])
        self.assertEqual(absences([one], results([one]))[0].shards, ("2/2",))

    def test_tests_of_a_shard(self) -> None:
        """A shard that came back without some results is named, with how it ended and what is missing."""
        two = halves()[1]
        for ended, how in (
            (None, "did not come to its end"),
            (130, "was interrupted"),
            (3, "ended with exit code 3"),
        ):
            with self.subTest(ended=ended):
                one = part((1, 2), "13", [record("1"), record("3", Status.ENDED)], ended=ended)
                wanted = f"absent: 1 test of shard 1/2 (part-1-100), which {how}: m.T.test_3"
                self.assertEqual(self.lines(one, two), [wanted])

    def test_second_attempt(self) -> None:
        """What an attempt at a shard lacks, another one may have."""
        old = part((1, 2), "13", [record("1")], ended=None)
        new = part((1, 2), "13", [record("3", started_at=201.0)], started_at=200.0, ended=None)
        self.assertEqual(self.lines(old, halves()[1], new), [])

    def test_test_that_no_shard_had(self) -> None:
        """Shards that together do not have all tests were cut differently."""
        one, two = part((1, 2), "1", [record("1")]), halves()[1]
        self.assertIn(
            "no part was to run: were the shards cut by different --timings?", self.lines(one, two)[0]
        )

    def test_repeats(self) -> None:
        """A test that lacks one of its repeats is absent; without end, one result is enough."""
        records = [record("1"), record("1", repeat=2), record("2")]
        for repeats, missing in ((2, 1), (0, 0), (1, 0)):
            one = part(None, "12", records, repeats=repeats, selection=ALL[:2])
            with self.subTest(repeats=repeats):
                self.assertEqual(len(self.lines(one)), missing)


class WholeTest(unittest.TestCase):
    """The description of the whole run."""

    def test_info(self) -> None:
        """The whole has all tests and no shard; hosts are listed, and the earliest start counts."""
        one, two = halves(options={"shard": "1/2", "report_dir": "x", "slow": True})
        two = part((2, 2), "24", [record("2")], hostname="two", started_at=90.0, jobs=4, messages=("note",))
        found = merged([one, two])
        info = found.info
        self.assertEqual((info.tests, info.selection, info.shard), (ALL, (), None))
        self.assertEqual((info.hostname, info.started_at, info.jobs, info.total), ("one, two", 90.0, 4, 4))
        self.assertEqual((info.argv, info.options, found.messages), (("m",), {"slow": True}, ("note",)))
        self.assertEqual(found.duration_s, 11.0)

    def test_command_line(self) -> None:
        """What belongs to a shard is left out of the command line."""
        for argv, left in (
            (("c10d", "--shard", "1/3", "-q"), ("c10d", "-q")),
            (("--shard=1/3", "--report-dir", "x", "c10d"), ("c10d",)),
            (("--report-dir=x", "--resume", "c10d"), ("c10d",)),
        ):
            with self.subTest(argv):
                self.assertEqual(without_shard(argv), left)


if __name__ == "__main__":
    unittest.main()
