"""The exceptions of the harness; each docstring says whose fault the error is and what to do about it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.outcomes import TestOutcome


class HarnessError(Exception):
    """The base class of the harness's own exceptions."""


class UsageError(HarnessError, ValueError):
    """The user made a mistake: an argument, environment variable or file that cannot be used.

    The message is one line that says what was wrong and what to write instead. ``run_tests.py`` ends with
    exit code 2 on it.
    """


class WrongPlatform(UsageError, ImportError):
    """A part of the harness cannot be imported, because this is not Linux."""


@contextlib.contextmanager
def of_the_platform() -> Iterator[None]:
    """Raises WrongPlatform in place of what an import lacks (``fcntl``) where this is not Linux."""
    try:
        yield
    except ImportError as error:
        if sys.platform == "linux":
            raise
        raise WrongPlatform(
            f"torch-harness needs Linux, and this is {sys.platform}: on Windows use WSL 2, elsewhere a "
            "container"
        ) from error


class LaunchError(HarnessError, RuntimeError):
    """Ranks could not be started: the test's module cannot be imported in them, or no process could be made.

    The message has the launcher's reason. Usually the test module is the cause.
    """


class ServerLost(LaunchError):
    """The fork server died while a test ran (it was killed, or out of memory).

    The running test is an error, and the next one gets a new server. The server's ranks end with it;
    processes that these ranks had started may continue.
    """


class MethodNotRun(HarnessError, RuntimeError):
    """unittest reported a pass of a test whose method did not run to its end.

    The method is a coroutine or generator function, whose body nobody ran, or an earlier test has patched
    unittest.
    """


class ProtocolError(HarnessError):
    """A peer sent bytes that are not a message.

    Either the harness has a bug, or a rank wrote to a descriptor that it does not own.
    """


class RankTestError(HarnessError):
    """The base class of what a multi-rank test raises in the parent; ``outcome`` has every rank's outcome."""

    def __init__(self, message: str, outcome: TestOutcome | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome


class RankFailure(RankTestError, AssertionError, RuntimeError):
    """An assertion failed in a rank: the test's verdict is FAIL, and the test or the tested code is wrong.

    It is also a ``RuntimeError``, because upstream's threaded tests raise that for any error of a rank.
    """


class RankError(RankTestError, RuntimeError):
    """A rank raised another exception, crashed, hung, or skipped alone: the test's verdict is ERROR.

    It is a ``RuntimeError``, because upstream's ``MultiProcessTestCase`` raises that.
    """


@dataclass(frozen=True, slots=True)
class InterruptReport:
    """The argument of the ``KeyboardInterrupt`` by which Ctrl-C ends a test with ranks.

    ``str()`` is the text that says what each rank was doing; ``outcome`` has every rank's outcome. It is no
    exception of its own, because Python ends a process by SIGINT only for ``KeyboardInterrupt`` itself, and a
    shell stops a script only for a process that ended so.
    """

    text: str
    outcome: TestOutcome

    def __str__(self) -> str:
        return self.text

    @staticmethod
    def of(error: BaseException) -> InterruptReport | None:
        """The report that an exception carries, or None."""
        first = error.args[0] if isinstance(error, KeyboardInterrupt) and error.args else None
        return first if isinstance(first, InterruptReport) else None


class CommunicationWarning(UserWarning):
    """Ranks communicated in a way that is wrong or depends on luck, although the test passed.

    With ``HARNESS_COMM_CHECK=error`` this is an error, with ``off`` it is not looked for.
    """


class RankLeakWarning(UserWarning):
    """A test left processes behind, which were ended, or changed its pooled ranks, which were replaced.

    With ``HARNESS_STRICT=1`` this is an error.
    """
