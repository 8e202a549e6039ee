"""Self-tests of harness.requirements.upstream_helpers: captured output and errors that DDP logged."""

from __future__ import annotations

import sys
import unittest
from typing import Any
from unittest import mock

from harness.requirements import captured_output, verify_ddp_error_logged


class CapturedOutputTest(unittest.TestCase):
    """The context manager ``captured_output``."""

    def test_both_streams_are_taken_in_and_given_back(self) -> None:
        before = sys.stdout, sys.stderr
        with self.assertRaises(KeyError), captured_output() as (out, err):
            print("to out")
            print("to err", file=sys.stderr)
            raise KeyError
        self.assertEqual((out.getvalue(), err.getvalue()), ("to out\n", "to err\n"))
        self.assertEqual((sys.stdout, sys.stderr), before)


class DdpErrorTest(unittest.TestCase):
    """The function ``verify_ddp_error_logged`` and its messages."""

    def check(self, logged: dict[str, Any], wanted: str) -> None:
        verify_ddp_error_logged(mock.Mock(**{"_get_ddp_logging_data.return_value": logged}), wanted)

    def test_a_logged_error(self) -> None:
        logged = {"iteration": 3, "has_error": 1, "error": "Expected all grads"}
        self.check(logged, "all grads")
        self.check(logged, "Expected all grads\nException raised from run at reducer.cpp:1")

    def test_another_error(self) -> None:
        with self.assertRaisesRegex(AssertionError, "logged another error: 'bucket'"):
            self.check({"iteration": 3, "has_error": 1, "error": "Expected all grads"}, "bucket")

    def test_no_error(self) -> None:
        with self.assertRaisesRegex(AssertionError, "no has_error, error in its logging data"):
            self.check({"iteration": 3}, "x")


if __name__ == "__main__":
    unittest.main()
