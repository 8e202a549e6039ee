"""The exception tree: each docstring says whose fault an error is and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.outcomes import TestOutcome


class HarnessError(Exception):
    """Base of everything that the harness raises on its own account."""


class UsageError(HarnessError, ValueError):
    """The user's fault: an argument, environment variable or file that cannot be used.

    The message is one line that says what was wrong and what to write instead. ``run_tests.py`` ends
    with exit code 2 on it.
    """


class LaunchError(HarnessError, RuntimeError):
    """Ranks could not be started: the test's module does not import in them, no process could be made.

    The message carries the reason as the launcher saw it. Usually the test module's fault.
    """


class ServerLost(LaunchError):
    """The fork server died under a running test (killed, or out of memory).

    Nobody's test failed by it: the test that ran is an error, the next one gets a new server. Its ranks end
    with it; processes that they had started themselves may live on.
    """


class ProtocolError(HarnessError):
    """A peer sent bytes that are no message: the harness's own fault, or a rank that wrote to a
    descriptor it does not own."""


class RankProblem(HarnessError):
    """Base of what a multi-rank test raises in the parent; ``outcome`` holds every rank's account."""

    def __init__(self, message: str, outcome: TestOutcome | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome


class RankFailure(RankProblem, AssertionError, RuntimeError):
    """An assertion failed in a rank: the test's verdict is FAIL. The test, or what it tests, is at fault.

    A ``RuntimeError`` too, because upstream's ranks that are threads raise that, whatever went wrong in them.
    """


class RankError(RankProblem, RuntimeError):
    """A rank raised something else, crashed, hung or skipped alone: the test's verdict is ERROR.

    A ``RuntimeError`` because upstream's ``MultiProcessTestCase`` raises that.
    """


class RankLeakWarning(UserWarning):
    """A test left processes behind, which were ended, or pooled ranks changed, which were replaced.

    An error under ``HARNESS_STRICT=1``.
    """
