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
        for ends, shown, runs in (
            ([KNOWN], KNOWN, 1),
            ([None], None, 1),
            ([ABORTED, KNOWN], KNOWN, 2),
            ([ABORTED, None], None, 2),
            ([ABORTED] * scripts.TRIES, ABORTED, scripts.TRIES),
        ):
            with self.subTest(ends=ends):
                run = mock.Mock(side_effect=[(failure, "words") for failure in ends])
                with mock.patch.object(scripts, "_run", run):
                    self.assertEqual(scripts.failure_of(entry, 1.0), (shown, "words"))
                self.assertEqual(run.call_count, runs)


if __name__ == "__main__":
    unittest.main()
