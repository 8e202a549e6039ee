"""Tests what kind of failure an outcome, an exception or a script's end is, and which of its text counts."""

from __future__ import annotations

import unittest

import torch

from harness.fuzzing.signature import Failure, Kind, Signature, of_error, of_exception, of_outcome, of_script
from harness.outcomes import ErrorInfo, RankOutcome, Status, TestOutcome

TORCHS = 'Traceback (most recent call last):\n  File "/x/torch/nn.py", line 3, in f\n    g()\n'
OURS = 'Traceback (most recent call last):\n  File "script.py", line 3, in f\n    g()\n'


class OfErrorTest(unittest.TestCase):
    def test_kinds(self) -> None:
        for name, message, frames, kind in (
            ("AssertionError", "values", OURS, Kind.WRONG),
            ("AssertionError", "values", TORCHS, Kind.ASSERTION),
            ("TypeError", "no", TORCHS, Kind.ASSERTION),
            ("TypeError", "no", OURS, Kind.REFUSED),
            ("RuntimeError", "not supported", TORCHS, Kind.REFUSED),
            ("RuntimeError", "tensor INTERNAL ASSERT FAILED at x", OURS, Kind.ASSERTION),
            ("a.BackendCompilerFailed", "raised:\nAssertionError: 3", TORCHS, Kind.ASSERTION),
        ):
            with self.subTest(name=name, message=message, frames=frames):
                self.assertIs(of_error(ErrorInfo(name, message, frames)).kind, kind)

    def test_first_line_of_an_oracle(self) -> None:
        error = ErrorInfo("AssertionError", "output 3: values\n[1, 2] compiled", OURS)
        self.assertEqual(of_error(error), Failure(Kind.WRONG, "output #: values"))

    def test_what_never_ends(self) -> None:
        """A program that was ended by its processor time hangs, like one that a deadline ended."""
        error = ErrorInfo("harness.fuzzing.processor_limit.NeverEnds", "timed out after 10 s", TORCHS)
        self.assertEqual(of_error(error), Failure(Kind.HANGS, "timed out"))

    def test_text_without_what_changes(self) -> None:
        text = of_error(ErrorInfo("a.b.E", "at 0x7f12 in /tmp/a/b.py:\n  size -3.5e-2", TORCHS)).text
        self.assertEqual(text, "E: at # in PATH: size #")

    def test_exceptions_of_this_process(self) -> None:
        with self.assertRaises(RuntimeError) as caught:
            torch.ones(2).view(3)
        self.assertIs(of_exception(caught.exception).kind, Kind.REFUSED)
        self.assertIn("RuntimeError: shape '[#]' is invalid", of_exception(caught.exception).text)


class OfOutcomeTest(unittest.TestCase):
    def outcome(self, status: Status, error: ErrorInfo | None = None) -> TestOutcome:
        rank = RankOutcome(1, status, error=error)
        return TestOutcome(status, (rank,), 1, "rank 1 crashed (SIGSEGV)")

    def test_statuses(self) -> None:
        for status, failure in (
            (Status.PASSED, None),
            (Status.SKIPPED, None),
            (Status.CRASHED, Failure(Kind.DIES, "rank # crashed (SIGSEGV)")),
            (Status.TIMED_OUT, Failure(Kind.HANGS, "timed out")),
            (Status.DEADLOCKED, Failure(Kind.HANGS, "deadlocked")),
        ):
            with self.subTest(status=status):
                self.assertEqual(of_outcome(self.outcome(status)), failure)

    def test_error_of_the_root_cause(self) -> None:
        error = ErrorInfo("AssertionError", "gradient", OURS)
        self.assertEqual(of_outcome(self.outcome(Status.FAILED, error)), Failure(Kind.WRONG, "gradient"))


class OfScriptTest(unittest.TestCase):
    def test_ends(self) -> None:
        for code, said, failure in (
            (0, "a warning", None),
            (None, "", Failure(Kind.HANGS, "timed out")),
            (-11, "", Failure(Kind.DIES, "signal 11")),
            (3, "nothing", Failure(Kind.DIES, "exit code 3")),
            (1, f"{OURS}AssertionError: values 3\nof b\n", Failure(Kind.WRONG, "values #")),
            (1, f"[rank0]: {OURS}[rank0]: AssertionError: values 3\n", Failure(Kind.WRONG, "values #")),
            (1, f"{OURS}AssertionError\n", Failure(Kind.WRONG, "")),
            (1, f"{TORCHS}ValueError: b\n\n{OURS}KeyError: c\n", Failure(Kind.REFUSED, "KeyError: c")),
            (1, f"{OURS}E: process 1 terminated with signal SIGSEGV", Failure(Kind.DIES, "SIGSEGV")),
        ):
            with self.subTest(code=code, said=said):
                self.assertEqual(of_script(code, said), failure)


class SignatureTest(unittest.TestCase):
    def test_text(self) -> None:
        signature = Signature("aot", Failure(Kind.DIES, "SIGSEGV"), "a + b")
        self.assertEqual(str(signature), "aot: process dies: SIGSEGV | a + b")


if __name__ == "__main__":
    unittest.main()
