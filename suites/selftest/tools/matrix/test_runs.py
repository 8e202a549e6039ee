"""Tests how the runs of the matrix are kept and read, and what the table says of them."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.runner import journal
from tools.matrix import runs

DAY = 1_790_000_000.0  # 2026-09-21
PAIR = "python-3.12.1-torch-2.13.0"


class RunsTest(unittest.TestCase):
    """A folder of runs."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.runs = Path(directory.name, "runs")

    def ran(self, pair: str, *records: TestRecord, torch: str = "2.13.0+cpu", of: str = "0123abc") -> None:
        """Writes the journal of a run, and of which revision it is."""
        folder = runs.new_run(self.runs, pair)
        folder.mkdir(parents=True)
        if of:
            runs.note_revision(folder, of)
        with journal.create(folder) as written:
            written.begin(RunInfo(python="3.12.1", torch=torch, started_at=DAY))
            for record in records:
                written.add(record)

    def rows(self) -> tuple[tuple[str, ...], ...]:
        return runs.table(runs.tried(self.runs)).rows

    def test_nothing_was_tried(self) -> None:
        """Without runs the table has no rows."""
        self.assertEqual(self.rows(), ())

    def test_verdicts_are_counted_by_suite(self) -> None:
        """Self-tests come first; an expected failure passed; a suite that was not run has a dash."""
        self.ran(
            PAIR,
            TestRecord("suites.c10d.test_x.C.a", Status.CRASHED),
            TestRecord("suites.c10d.test_x.C.b", Status.XFAILED),
            TestRecord("suites.selftest.test_x.C.a", Status.SKIPPED),
        )
        self.ran(f"{PAIR}.1", TestRecord("suites.aot.test_x.C.a", Status.PASSED), torch="2.13.0.1")
        table = runs.table(runs.tried(self.runs))
        suites = ("``selftest``", "``aot``", "``c10d``")
        self.assertEqual(table.heading, ("Python", "torch", *suites, "run on", "revision"))
        self.assertEqual(
            table.rows,
            (
                ("3.12.1", "2.13.0+cpu", "0/0/1", "-", "1/1/0", "2026-09-21", "0123abc"),
                ("3.12.1", "2.13.0.1", "-", "1/0/0", "-", "2026-09-21", "0123abc"),
            ),
        )

    def test_the_last_attempt_in_the_last_run_counts(self) -> None:
        """A rerun replaces the verdict within a run, a later run an earlier's; a stopped test has none."""
        a, b = "suites.c10d.test_x.C.a", "suites.c10d.test_x.C.b"
        self.ran(PAIR, TestRecord(a, Status.FAILED), TestRecord(b, Status.FAILED))
        self.ran(PAIR, TestRecord(a, Status.ERROR), TestRecord(a, Status.PASSED, attempt=2))
        self.ran(PAIR, TestRecord(a, Status.ENDED))
        (pair,) = runs.tried(self.runs)
        self.assertEqual([record.id for record in runs.failed(pair)], [b])
        self.assertEqual(runs.described(pair), "c10d 1/1/0")

    def test_revisions(self) -> None:
        """A row names each revision of the tree that its runs are of once, the first first."""
        for of in ("0123abc", "4567def+", "", "0123abc"):
            self.ran(PAIR, TestRecord("suites.c10d.test_x.C.a", Status.PASSED), of=of)
        self.assertEqual(self.rows()[0][-1], "0123abc, 4567def+, unknown")

    def test_revision_of_a_tree(self) -> None:
        """It is the commit, with a plus after a change; a folder without git has none."""
        tree = self.runs / "tree"
        tree.mkdir(parents=True)
        self.assertEqual(runs.revision(tree), "unknown")
        (tree / "file").touch()
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        for words in (["init", "-q"], ["add", "file"], [*who, "commit", "-qm", "one"]):
            subprocess.run(["git", *words], cwd=tree, check=True)
        self.assertRegex(runs.revision(tree), "^[0-9a-f]{7,}$")
        (tree / "file").write_text("changed")
        self.assertRegex(runs.revision(tree), r"^[0-9a-f]{7,}\+$")

    def test_pairs_are_ordered_by_numbers(self) -> None:
        """3.9 comes before 3.10, and folders of other names are none of the matrix."""
        for name in (
            "python-3.10.1-torch-2.9.0",
            "python-3.9.1-torch-2.10.0",
            "python-3.9.1-torch-2.9.0",
            "other",
        ):
            self.ran(name, torch="")
        self.assertEqual(
            [row[:2] for row in self.rows()], [("3.9.1", "2.9.0"), ("3.9.1", "2.10.0"), ("3.10.1", "2.9.0")]
        )

    def test_a_pair_without_an_environment(self) -> None:
        """The reason stands in the row, in place of what was known before, until the pair is run."""
        self.ran(PAIR, TestRecord("suites.c10d.test_x.C.a", Status.PASSED))
        runs.note_not_made(self.runs, PAIR, "no wheel")
        self.assertEqual(self.rows(), (("3.12.1", "2.13.0", "no wheel", ""),))
        self.assertEqual(runs.described(runs.tried(self.runs)[0]), "no environment: no wheel")
        runs.forget(self.runs, PAIR)
        self.assertEqual(self.rows(), ())

    def test_an_environment_at_last(self) -> None:
        """A run of some tests takes the place of the reason why there was no environment."""
        runs.note_not_made(self.runs, PAIR, "no wheel")
        self.ran(PAIR, TestRecord("suites.c10d.test_x.C.a", Status.PASSED))
        self.assertNotIn("no wheel", str(self.rows()))

    def test_what_was_not_tried(self) -> None:
        """A pair that nothing is known of is described as such."""
        self.assertEqual(runs.described(None), "not run")
