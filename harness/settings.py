"""The environment variables of the harness, their defaults, and ``Settings``, the value they are read into.

The library reads them in any process: under ``run_tests.py``, ``unittest`` or ``pytest``, in a worker and in
a rank. ``run_tests.py`` passes its flags to its workers as these variables (``Settings.to_environ``). This
module imports nothing but light modules of the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import UsageError

# Seconds. Long enough for the slowest compile test on a loaded two-core machine, short enough that a hang
# does not take most of the run's time.
TIMEOUT_S = 120.0
# Seconds for the peers to report after a rank's first failure. They fail on the same line within
# milliseconds, or wait for the dead rank forever.
GRACE_S = 1.0
# Seconds for ranks to exit after all have reported; covers gloo's shutdown and a flush of coverage.
EXIT_GRACE_S = 10.0
# Seconds for the peers to report after a rank skipped: a skip usually precedes slow work, which ranks that
# should have skipped too are busy with.
SKIP_GRACE_S = 10.0
# Seconds. Python's selectors count milliseconds in 32 bits; a week is below that and longer than any test.
LONGEST_S = 7 * 24 * 3600.0
assert GRACE_S < SKIP_GRACE_S <= EXIT_GRACE_S < TIMEOUT_S < LONGEST_S

# torch.testing's own default, so that a ported test draws the numbers that it drew before.
SEED = 1234
# numpy.random.seed takes 32 bits; torch and random take more.
LARGEST_SEED = 2**32 - 1

LAUNCHERS = ("forkserver", "spawn", "external")
RANK_OUTPUTS = ("capture", "stream")
RANK_MODES = ("fresh", "pooled", "threads", "local")

# Set by a drop-in run, so that its processes install the drop-in before they import a test file.
DROP_IN = "HARNESS_DROP_IN"
# The attribute of a test method that starts ranks itself, whatever its class is.
SUPERVISED = "__harness_supervised__"
# Set in workers of run_tests.py, which names the command to run a failed test again; elsewhere the test does.
WORKER = "HARNESS_WORKER"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that the harness reads, as ``--help`` and the README list it."""

    name: str
    values: str
    meaning: str


VARIABLES = (
    Variable("HARNESS_TIMEOUT", "seconds, default 120", "deadline of a test that sets none by @timeout"),
    Variable("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "seconds", "the same, under upstream's name"),
    Variable("HARNESS_SEED", "0 to 4294967295, default 1234", "seed of every random generator"),
    Variable(
        "HARNESS_LAUNCHER",
        "forkserver|spawn|external",
        "how ranks start; unset: the fastest that is safe here",
    ),
    Variable("HARNESS_RANKS", "fresh|pooled|threads|local", "what ranks are, where the class allows it"),
    Variable("HARNESS_RANK_OUTPUT", "capture|stream", "keep what ranks print, or pass it on with a prefix"),
    Variable(
        "HARNESS_STRICT",
        "0|1, default 0",
        "a test that leaves processes behind, or kept ranks changed, is an error",
    ),
    Variable(
        "HARNESS_LOG_DIR",
        "directory",
        "where each rank's output is kept; unset: nowhere, failures quote its end",
    ),
    Variable("HARNESS_GRACE", "seconds, default 1", "for peers to report after a rank's first failure"),
    Variable("HARNESS_EXIT_GRACE", "seconds, default 10", "for ranks to leave after all have reported"),
    Variable("HARNESS_SKIP_GRACE", "seconds, default 10", "for peers to report after a rank skipped"),
    Variable("HARNESS_PDB_RANK", "rank", "that rank gets the terminal, and no deadline is kept"),
    Variable(DROP_IN, "1", "what --drop-in and harness.dropin set for the processes that they start"),
    Variable(
        "HARNESS_EXAMPLES", "number", "random examples of each property test; unset: few, the same each time"
    ),
    Variable("PYTORCH_TEST_WITH_SLOW", "1", "the exhaustive operator and module sweeps run too"),
    Variable("EXPECTTEST_ACCEPT", "1", "expected outputs are rewritten in the tests' sources"),
    Variable("WORLD_SIZE", "number", "ranks that skip_if_lt_x_gpu and the like reckon with"),
    Variable("BACKEND", "gloo|nccl|...", "the backend that they reckon with"),
)

# The variables that can change a test's verdict; a run that resumes another one takes its values.
DECIDING = (
    "HARNESS_TIMEOUT",
    "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT",
    "HARNESS_SEED",
    "HARNESS_LAUNCHER",
    "HARNESS_RANKS",
    "HARNESS_STRICT",
    "HARNESS_GRACE",
    "HARNESS_EXIT_GRACE",
    "HARNESS_SKIP_GRACE",
    DROP_IN,
    "HARNESS_EXAMPLES",
    "PYTORCH_TEST_WITH_SLOW",
    "WORLD_SIZE",
    "BACKEND",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of this process. Durations in seconds, all finite.

    ``launcher`` None means the fastest launcher that is safe here, ``ranks`` None the rank mode of the test's
    class, ``examples`` None a small, fixed number for each property test. ``pdb_rank`` is the rank that has
    the terminal; no deadline or grace applies while it is set.
    """

    timeout_s: float = TIMEOUT_S
    seed: int = SEED
    launcher: str | None = None
    ranks: str | None = None
    rank_output: str = "capture"
    strict: bool = False
    log_dir: str | None = None
    grace_s: float = GRACE_S
    exit_grace_s: float = EXIT_GRACE_S
    skip_grace_s: float = SKIP_GRACE_S
    pdb_rank: int | None = None
    examples: int | None = None
    slow: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """The settings of ``environ``; a variable that is unset or empty leaves its default.

        ``HARNESS_TIMEOUT`` takes precedence over ``DISTRIBUTED_TESTS_DEFAULT_TIMEOUT``. As upstream, only
        ``1`` turns ``PYTORCH_TEST_WITH_SLOW`` on, and other values of it are no error. UsageError, in one
        line, for any other value that cannot be used.
        """
        read = _Reader(environ)
        return cls(
            timeout_s=read(
                "HARNESS_TIMEOUT", _positive, read("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", _positive, TIMEOUT_S)
            ),
            seed=read("HARNESS_SEED", _seed, SEED),
            launcher=read("HARNESS_LAUNCHER", _one_of(LAUNCHERS), None),
            ranks=read("HARNESS_RANKS", _one_of(RANK_MODES), None),
            rank_output=read("HARNESS_RANK_OUTPUT", _one_of(RANK_OUTPUTS), "capture"),
            strict=read("HARNESS_STRICT", _one_of(("0", "1")), "0") == "1",
            log_dir=environ.get("HARNESS_LOG_DIR") or None,
            grace_s=read("HARNESS_GRACE", _duration, GRACE_S),
            exit_grace_s=read("HARNESS_EXIT_GRACE", _duration, EXIT_GRACE_S),
            skip_grace_s=read("HARNESS_SKIP_GRACE", _duration, SKIP_GRACE_S),
            pdb_rank=read("HARNESS_PDB_RANK", _whole, None),
            examples=read("HARNESS_EXAMPLES", _counted, None),
            slow=environ.get("PYTORCH_TEST_WITH_SLOW") == "1",
        )

    def to_environ(self) -> dict[str, str]:
        """The variables that make another process read these same settings.

        Defaults are written out too, so that they override what that process inherited. A choice that is not
        made is the empty string.
        """
        return {
            "HARNESS_TIMEOUT": repr(self.timeout_s),
            "HARNESS_SEED": str(self.seed),
            "HARNESS_LAUNCHER": self.launcher or "",
            "HARNESS_RANKS": self.ranks or "",
            "HARNESS_RANK_OUTPUT": self.rank_output,
            "HARNESS_STRICT": "1" if self.strict else "0",
            "HARNESS_LOG_DIR": self.log_dir or "",
            "HARNESS_GRACE": repr(self.grace_s),
            "HARNESS_EXIT_GRACE": repr(self.exit_grace_s),
            "HARNESS_SKIP_GRACE": repr(self.skip_grace_s),
            "HARNESS_PDB_RANK": "" if self.pdb_rank is None else str(self.pdb_rank),
            "HARNESS_EXAMPLES": "" if self.examples is None else str(self.examples),
            "PYTORCH_TEST_WITH_SLOW": "1" if self.slow else "0",
        }


class _Reader:
    """Reads one variable at a time, and names the variable where its value cannot be used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __call__(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self._environ.get(name, "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise UsageError(f"{name}={text!r}: {error}") from None


def _duration(text: str) -> float:
    """Parses seconds, 0 or more; the ValueError says what to write."""
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError("write a number of seconds") from None
    if not math.isfinite(seconds) or not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"write a number of seconds from 0 to {LONGEST_S:.0f}")
    return seconds


def _positive(text: str) -> float:
    seconds = _duration(text)
    if seconds == 0:
        raise ValueError(f"write a number of seconds above 0, up to {LONGEST_S:.0f}")
    return seconds


def _whole(text: str) -> int:
    """Parses a number of ASCII digits; the ValueError says what to write."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def _counted(text: str) -> int:
    number = _whole(text)
    if number == 0:
        raise ValueError("write a whole number, 1 or more")
    return number


def _seed(text: str) -> int:
    number = _whole(text)
    if number > LARGEST_SEED:
        raise ValueError(f"write a whole number from 0 to {LARGEST_SEED}")
    return number


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """A parser that accepts only ``choices``, exactly as they are written."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"write one of {', '.join(choices)}")
        return text

    return parse
