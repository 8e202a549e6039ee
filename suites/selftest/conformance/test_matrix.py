"""Tests how cells get their states, as tables."""

from __future__ import annotations

import unittest

from harness.conformance.matrix import Cell, State, cell_of_test, matrix, merged, states, summary_line
from harness.outcomes import Status
from harness.record import RankRecord, TestRecord
from suites.selftest.conformance.samples import entry, everything

TEST = "suites.c10d.test_x.Ranks.test_y"


def record(status: Status, *ranks: Status, reason: str = "", **fields: object) -> TestRecord:
    """Returns the record of a test whose ranks have ended in these ways."""
    of_ranks = tuple(RankRecord(rank, each) for rank, each in enumerate(ranks))
    return TestRecord(TEST, status, reason=reason, ranks=of_ranks, **fields)  # type: ignore[arg-type]  # of a table


class WholeTest(unittest.TestCase):
    """A test as a cell."""

    def test_states(self) -> None:
        """Each status is a state; a skip is told apart by its reason, a known failure by its own status."""
        known = {"known": {"why": "no bool", "status": "crashed"}}
        for found, state, why in (
            (record(Status.PASSED), State.RIGHT, ""),
            (record(Status.XFAILED), State.RIGHT, ""),
            (record(Status.FAILED), State.WRONG, ""),
            (record(Status.ERROR), State.REFUSED, ""),
            (record(Status.CRASHED), State.CRASHED, ""),
            (record(Status.TIMED_OUT), State.HUNG, ""),
            (record(Status.DEADLOCKED), State.HUNG, ""),
            (record(Status.ENDED), State.NOT_RUN, ""),
            (record(Status.SKIPPED, reason="needs 2 GPUs"), State.NOT_RUN, ""),
            (record(Status.SKIPPED, reason="not declared by target x: y"), State.UNDECLARED, ""),
            (record(Status.XFAILED, extra=known), State.CRASHED, "no bool"),
        ):
            with self.subTest(found.status, reason=found.reason):
                cell = cell_of_test(found)
                self.assertEqual((cell.suite, cell.name, cell.state, cell.known), ("c10d", TEST, state, why))


class StatesTest(unittest.TestCase):
    """The cells of a test, by rank."""

    def states(self, *entries: object, status: Status | None, ranks: tuple[Status, ...] = ()) -> list[State]:
        return [state for _, state in states(entries, status, dict(enumerate(ranks)))]  # type: ignore[arg-type]

    def test_ended(self) -> None:
        """What a cell ended with is its state, unless the target does not declare it."""
        for end, declared, state in (
            ("right", True, State.RIGHT),
            ("wrong", True, State.WRONG),
            ("refused", True, State.REFUSED),
            ("undeclared", True, State.UNDECLARED),
            ("skipped", True, State.NOT_RUN),
            ("right", False, State.SURPLUS),
            ("wrong", False, State.UNDECLARED),
            ("refused", False, State.UNDECLARED),
        ):
            with self.subTest(end, declared=declared):
                tried = entry(0, 1, end=end, declared=declared)
                self.assertEqual(self.states(tried, status=Status.FAILED), [state])

    def test_left_open(self) -> None:
        """A cell without an end is its rank's, or the test's; that of a rank which was ended says nothing."""
        open_0, open_1 = entry(0, 1, end=None), entry(1, 1, end=None)
        crashed, ended, hung = Status.CRASHED, Status.ENDED, Status.TIMED_OUT
        for entries, status, ranks, expected in (
            ((open_0, open_1), crashed, (ended, crashed), [State.CRASHED]),
            ((open_0, open_1), hung, (hung, hung), [State.HUNG, State.HUNG]),
            ((open_0,), Status.DEADLOCKED, (Status.DEADLOCKED, ended), [State.HUNG]),
            ((open_0,), crashed, (), [State.CRASHED]),
            ((open_0,), hung, (), [State.HUNG]),
            ((open_0,), Status.FAILED, (Status.FAILED, ended), []),
            ((open_0,), None, (), []),
            ((entry(0, 2, end=None), open_1), hung, (hung, hung), [State.HUNG]),
        ):
            with self.subTest(status, ranks=ranks):
                self.assertEqual(self.states(*entries, status=status, ranks=ranks), expected)

    def test_said(self) -> None:
        """Of a cell that did not end the test's reason is told, of another its own words."""
        found = states([entry(0, 1, said="own"), entry(0, 2, end=None)], Status.CRASHED, {}, "rank 0 crashed")
        self.assertEqual([each.said for each, _ in found], ["own", "rank 0 crashed"])


class MatrixTest(unittest.TestCase):
    """The matrix of a run."""

    def test_worst_rank(self) -> None:
        """The worst of the ranks counts, with what it said and the test in which that was."""
        ranks = (entry(0, 1), entry(1, 1, end="wrong", said="1 is not 2"))
        found = matrix(
            [record(Status.FAILED)],
            ["suites.spmd.test_z.A.test_late"],
            lambda test: ranks if test == TEST else (),
        )
        (tried,) = found.cells
        coordinates = (("dtype", "float32"), ("world_size", "2"))
        self.assertEqual(tried, Cell("c10d", "all_reduce", coordinates, State.WRONG, "1 is not 2", TEST))
        self.assertEqual({each.name: each.state for each in found.tests},
                         {TEST: State.WRONG, "suites.spmd.test_z.A.test_late": State.NOT_RUN})  # fmt: skip
        self.assertEqual(str(tried), "c10d all_reduce (dtype=float32, world_size=2)")

    def test_known(self) -> None:
        """The bad cells of a known failure are known, the others are not."""
        known = record(Status.XFAILED, extra={"known": {"why": "no bool", "status": "failed"}})
        found = matrix([known], (), lambda _: (entry(0, 1), entry(0, 2, "gather", end="refused")))
        self.assertEqual(
            [(each.name, each.known) for each in found.cells], [("all_reduce", ""), ("gather", "no bool")]
        )

    def test_merged(self) -> None:
        """The worst state counts; a known failure hides none that is not known, but hides what is right."""

        def of(state: State, known: str = "") -> Cell:
            return Cell("c10d", "gather", (), state, known=known)

        for given, expected in (
            ([of(State.RIGHT), of(State.WRONG), of(State.REFUSED)], of(State.WRONG)),
            ([of(State.UNDECLARED), of(State.RIGHT), of(State.NOT_RUN)], of(State.RIGHT)),
            ([of(State.CRASHED, "known"), of(State.WRONG)], of(State.WRONG)),
            ([of(State.RIGHT), of(State.CRASHED, "known")], of(State.CRASHED, "known")),
            ([of(State.SURPLUS), of(State.HUNG)], of(State.HUNG)),
            ([of(State.SURPLUS), of(State.UNDECLARED)], of(State.UNDECLARED)),
        ):
            with self.subTest([each.state for each in given]):
                self.assertEqual(merged(given), (expected,))
                self.assertEqual(merged(reversed(given)), (expected,))

    def test_summary_line(self) -> None:
        """Tests right of those that ran by suite, then cells, then what is not among them."""
        self.assertEqual(
            summary_line(everything().matrix),
            "c10d 1/5, spmd 1/1, 1 of 6 cells right, 1 not declared, 1 not run, 1 right but not declared",
        )


if __name__ == "__main__":
    unittest.main()
