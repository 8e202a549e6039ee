"""``Signature``: by what finds of a hunt are known to be the same bug: how it fails, and in what program."""

from __future__ import annotations

import enum
import re
import traceback
from dataclasses import dataclass

from harness.fuzzing.processor_limit import NeverEnds
from harness.outcomes import ErrorInfo, Status, TestOutcome

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Characters of an error's text that count: what comes later depends on the program's values.
LENGTH = 240
# Exceptions that mean, where torch's own code raises them, that it has met what it did not think of.
_INTERNAL = (
    *("AssertionError", "TypeError", "IndexError", "KeyError", "AttributeError", "NameError"),
    *("ZeroDivisionError", "RecursionError", "NotImplementedError", "UnboundLocalError", "StopIteration"),
)
_SAYS_SO = re.compile(r"INTERNAL ASSERT|report a bug|InternalTorchDynamoError|(?:^|\W)AssertionError")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PATH = re.compile(r"(?:/[\w.+-]+){2,}")
# What torch's hook for exceptions puts before each line in a process that has a process group.
_OF_RANK = re.compile(r"(?m)^\[rank\d+\]: ?")
_FRAME = re.compile(r'(?m)^\s+File "(.*?)", line')


class Kind(str, enum.Enum):
    """What is wrong, from a user's view."""

    WRONG = "silently wrong"
    DIES = "process dies"
    HANGS = "hangs"
    ASSERTION = "internal assertion"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Failure:
    """How a program failed: the kind, and the error's text without numbers, addresses and paths."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"


@dataclass(frozen=True, slots=True)
class Signature:
    """How a program of a fuzzer fails, and the structure of the smallest one that does."""

    fuzzer: str
    failure: Failure
    structure: str

    def __str__(self) -> str:
        return f"{self.fuzzer}: {self.failure} | {self.structure}"


def of_outcome(outcome: TestOutcome) -> Failure | None:
    """How a program failed on its ranks; None where it passed or was rejected."""
    cause = next((rank for rank in outcome.ranks if rank.rank == outcome.root_cause), None)
    if outcome.status in (Status.TIMED_OUT, Status.DEADLOCKED):
        return Failure(Kind.HANGS, plain(outcome.status.value))
    if outcome.status is Status.CRASHED:
        return Failure(Kind.DIES, plain(outcome.reason))
    if not outcome.status.bad:
        return None
    if cause is not None and cause.error is not None:
        return of_error(cause.error)
    return Failure(Kind.REFUSED, plain(outcome.reason))


def of_exception(error: BaseException) -> Failure:
    """What an exception says that a program raised in this process."""
    kind, text = type(error), "".join(traceback.format_exception(error))
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return of_error(ErrorInfo(name, str(error), text))


def of_error(error: ErrorInfo) -> Failure:
    """What an error says; an AssertionError of torch's own code is torch's, any other one the oracle's."""
    name = error.type_name.rpartition(".")[2]
    if name == NeverEnds.__name__:
        return Failure(Kind.HANGS, plain(Status.TIMED_OUT.value))
    frames = _FRAME.findall(error.traceback)
    torchs = bool(frames) and "/torch/" in frames[-1]
    if name == "AssertionError" and not torchs:
        return Failure(Kind.WRONG, plain(error.message.strip().partition("\n")[0]))
    internal = _SAYS_SO.search(error.message) or (torchs and name in _INTERNAL)
    return Failure(Kind.ASSERTION if internal else Kind.REFUSED, plain(f"{name}: {error.message}"))


def of_script(exit_code: int | None, errors: str) -> Failure | None:
    """How a script failed whose standard error is ``errors``; an exit code of None is a script that hung."""
    if exit_code == 0:
        return None
    if exit_code is None:
        return Failure(Kind.HANGS, plain(Status.TIMED_OUT.value))
    if exit_code < 0:
        return Failure(Kind.DIES, f"signal {-exit_code}")
    errors = _OF_RANK.sub("", errors)
    killed = re.search(r"terminated with signal (\w+)", errors)
    if killed:
        return Failure(Kind.DIES, killed[1])
    blocks = errors.split("Traceback (most recent call last):")
    raised = re.search(r"(?ms)^([A-Za-z_][\w.]*)(?:: (.*))?\Z", _after_frames(blocks[-1]))
    if len(blocks) == 1 or raised is None:
        return Failure(Kind.DIES, f"exit code {exit_code}")
    return of_error(ErrorInfo(raised[1], raised[2] or "", blocks[-1]))


def _after_frames(block: str) -> str:
    """What stands below the frames of a traceback: the error, without what is printed afterwards."""
    lines = block.strip("\n").splitlines()
    first = next((i for i, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    return "\n".join(lines[first:]).strip()


def plain(text: str) -> str:
    """A text without what differs from run to run: numbers, addresses, paths, and what comes late."""
    text = _PATH.sub("PATH", _ADDRESS.sub("#", text))
    return " ".join(_NUMBER.sub("#", text).split())[:LENGTH]
