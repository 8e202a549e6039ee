"""Tests what a script's end comes to in its rank, and what the rank's process gets before it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import unittest
from unittest import mock

import numpy

from harness.outcomes import Status
from harness.ranks.result import RankResult
from harness.run.in_rank import ScriptInRank
from suites.selftest.cases.recording_channel import RecordingChannel
from suites.selftest.run.scripts import ScriptCase


class EndsTest(ScriptCase):
    """Scripts that run in this process."""

    def result(self, body: str) -> RankResult:
        """Runs a script as rank 1 and returns what it records."""
        path = self.write("train.py", body)
        channel = RecordingChannel()
        self.err = io.StringIO()
        with (
            mock.patch.dict(os.environ),
            mock.patch.dict(sys.modules),
            mock.patch("threading._shutdown") as self.shutdown,
            mock.patch.object(sys, "excepthook", sys.excepthook),
            contextlib.redirect_stderr(self.err),
        ):
            ScriptInRank._run(
                1, "script", "", channel, target=str(path), by_name=False, variables=[{"R": "0"}, {"R": "1"}]
            )
            self.variable = os.environ.get("R")
        assert channel.result is not None
        return channel.result

    def test_ends(self) -> None:
        """Python's exit code 0 is a pass, whatever it comes from; threads are waited for after one alone."""
        for body, status, code, said in (
            ("", Status.PASSED, None, ""),
            ("import sys; sys.exit()", Status.PASSED, None, ""),
            ("import sys; sys.exit(0)", Status.PASSED, None, ""),
            ("import sys; sys.exit(False)", Status.PASSED, None, ""),
            ("import sys; sys.exit(256)", Status.PASSED, None, ""),
            ("import sys; sys.exit(3)", Status.ERROR, 3, ""),
            ("import sys; sys.exit(-1)", Status.ERROR, 255, ""),
            ("import sys; sys.exit('no data')", Status.ERROR, 1, "no data\n"),
            ("raise ValueError(5)", Status.ERROR, None, "ValueError: 5\n"),
            ("assert 1 == 2", Status.FAILED, None, "AssertionError"),
            ("raise KeyboardInterrupt", Status.ERROR, None, "KeyboardInterrupt"),
            ("import unittest; raise unittest.SkipTest('x')", Status.ERROR, None, "SkipTest"),
            ("def", Status.ERROR, None, "SyntaxError"),
        ):
            with self.subTest(body):
                result = self.result(body)
                self.assertEqual((result.status, result.requested_exit_code), (status, code))
                self.assertIn(said, self.err.getvalue())
                self.assertEqual(self.shutdown.called, status is Status.PASSED)
                self.assertEqual(result.error is None, status is Status.PASSED)

    def test_hook(self) -> None:
        """The script's own hook is told of an exception; a hook that fails changes no result."""
        for hook, said in (("print('mine:', v, file=sys.stderr)", "mine: 7"), ("1 / 0", "ZeroDivisionError")):
            with self.subTest(hook):
                result = self.result(
                    f"import sys\ndef hook(t, v, b): {hook}\nsys.excepthook = hook\nraise OSError(7)"
                )
                self.assertIn(said, self.err.getvalue())
                assert result.error is not None
                self.assertEqual((result.error.type_name, result.error.message), ("OSError", "7"))

    def test_variables(self) -> None:
        """The environment is that of the rank."""
        self.result("import os; assert os.environ['R'] == '1'")
        self.assertEqual(self.variable, "1")

    def test_random_numbers(self) -> None:
        """numpy's numbers do not go on where those of the process that was forked stood."""
        state = numpy.random.get_state()
        self.addCleanup(numpy.random.set_state, state)
        expected = numpy.random.rand()
        numpy.random.set_state(state)
        self.result("")
        self.assertNotEqual(numpy.random.rand(), expected)


if __name__ == "__main__":
    unittest.main()
