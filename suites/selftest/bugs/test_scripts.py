"""Tests when the script of an entry is run again: where another process that ends first hides its failure."""

from __future__ import annotations

import unittest
from unittest import mock

from harness.fuzzing.signature import Failure, Kind
from suites.bugs import book, scripts
from suites.selftest.bugs.test_book import script

KNOWN = Failure(Kind.WRONG, "sum of # is #")
ABORTED = Failure(Kind.DIES, "SIGABRT")


class TriesTest(unittest.TestCase):
    def test_what_may_be_only_of_a_peer(self) -> None:
        wrong = book.read("sums", script())
        dies = book.read("sums", script(kind="process dies", fails="process dies: SIGABRT"))
        for entry, failure, expected in (
            (wrong, "silently wrong: sum of # is #", False),
            (wrong, "process dies: SIGABRT", True),
            (wrong, "process dies: SIGSEGV", False),
            (wrong, "refused: RuntimeError: Connection closed by peer [#.#]:#", True),
            (wrong, "refused: EOFError: Ran out of input", True),
            (wrong, "refused: TypeError: no sum of words", False),
            (dies, "process dies: SIGABRT", False),
        ):
            with self.subTest(fails=entry.fails, failure=failure):
                self.assertIs(scripts.only_of_a_peer(entry, failure), expected)

    def test_runs(self) -> None:
        entry = book.read("sums", script())
        for ends, at_last, shown in (
            ([KNOWN], None, KNOWN),
            ([None], None, None),
            ([ABORTED, KNOWN], None, KNOWN),
            ([ABORTED, None], None, None),
            ([ABORTED, ABORTED], KNOWN, KNOWN),
            ([ABORTED, ABORTED], ABORTED, ABORTED),
        ):
            with self.subTest(ends=ends, at_last=at_last):
                run = mock.Mock(side_effect=[(failure, "words") for failure in ends])
                new = mock.Mock(return_value=(at_last, "words"))
                with mock.patch.multiple(scripts, _run=run, run_file=new):
                    self.assertEqual(scripts.failure_of(entry, 1.0), (shown, "words"))
                self.assertEqual(run.call_count, len(ends))
                self.assertEqual(new.call_count, int(ends == [ABORTED, ABORTED]))


if __name__ == "__main__":
    unittest.main()
