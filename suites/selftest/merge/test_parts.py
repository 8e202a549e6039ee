"""Tests which directories are parts of a run, and what a part is."""

from __future__ import annotations

import fcntl
import unittest
from dataclasses import replace
from pathlib import Path

from harness.errors import UsageError
from harness.merge.parts import part_of, read_part, read_parts
from harness.outcomes import Status
from harness.report.base import RunInfo
from harness.runner import journal
from suites.selftest.merge.samples import ALL, halves, part, record
from suites.selftest.runner import runs


class ReadTest(unittest.TestCase):
    """Runs that are read from directories."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)

    def leave(self, name: str, info: RunInfo) -> Path:
        """Writes a run into a directory of that name."""
        directory = self.directory / name
        directory.mkdir()
        with journal.create(directory) as made:
            made.begin(info)
        return directory

    def test_order(self) -> None:
        """Parts are read oldest first, each once, under the name that the user gave last."""
        info = halves()[0].info
        new, old = (self.leave(n, replace(info, started_at=at)) for n, at in (("new", 9.0), ("old", 3.0)))
        found = read_parts([new, old, self.directory / "." / "new"])
        self.assertEqual([each.directory.name for each in found], ["old", "new"])
        self.assertEqual(found[0].selection, ALL)

    def test_no_run(self) -> None:
        """A directory that is not there, has no journal or an empty one is refused by its name."""
        empty = self.directory / "empty"
        empty.mkdir()
        torn = self.directory / "torn"
        torn.mkdir()
        (torn / journal.NAME).write_text('{"schema":1,"kind":"ru')
        odd = self.directory / "odd"
        odd.mkdir()
        (odd / journal.NAME).write_text("{}\n")
        for directory, said in (
            (self.directory / "none", "none holds no run"),
            (empty, "empty holds no run"),
            (torn, "torn holds no run"),
            (odd, "odd/journal.jsonl does not begin with a run's header"),
        ):
            with self.subTest(directory.name), self.assertRaisesRegex(UsageError, said):
                read_part(directory)

    def test_still_going(self) -> None:
        """A run that has its journal locked is refused."""
        directory = self.leave("going", halves()[0].info)
        with (directory / journal.NAME).open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            with self.assertRaisesRegex(UsageError, "still going"):
                read_part(directory)


class PartTest(unittest.TestCase):
    """What a part says of its run."""

    def test_attempts_that_were_cut_short(self) -> None:
        """A test that the end of its run has ended has no result."""
        one = part((1, 2), "13", [record("1"), record("3", Status.ENDED)])
        self.assertEqual([each.id for each in one.records], ["m.T.test_1"])

    def test_shard_of_an_older_harness(self) -> None:
        """A shard that does not say of which tests it is a part is refused; a whole run needs not."""
        one = halves()[0]
        older = replace(one.run, info=replace(one.info, selection=()))
        with self.assertRaisesRegex(UsageError, "shard 1/2 does not say of which tests"):
            part_of(Path("d"), older)
        whole = part_of(Path("d"), replace(older, info=replace(older.info, shard=None)))
        self.assertEqual((whole.number, whole.selection, whole.name), (1, one.info.tests, "d"))


if __name__ == "__main__":
    unittest.main()
