"""The variables by which each CI system names a shard, and the shard that they or ``--shard`` name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

# No CI system splits a job into more shards; a larger number is a mistake that would cost memory.
LARGEST_TOTAL = 10_000


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``number`` of ``total``, counted from 1. ``str()`` is the form of ``--shard``."""

    number: int
    total: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.total <= LARGEST_TOTAL:
            raise UsageError(
                f"shard {self.number}/{self.total}: write I/N with I from 1 to N and N up to {LARGEST_TOTAL}"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard in a text ``I/N``; UsageError where the form is wrong or a number is out of range."""
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        if match is None:
            raise UsageError(f"--shard {text!r}: write I/N, such as 2/4 for the second of four")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class Family:
    """A CI system's variables for a shard and the number of shards; ``first`` is the first shard's index."""

    set_by: str
    index: str
    total: str
    first: int

    @property
    def names(self) -> str:
        """Both names, as error messages show them."""
        return f"{self.index}/{self.total}"


# In the order in which they are read. Sources: Bazel's documentation of sharded tests, PyTorch's CI, GitLab's
# ``parallel``, CircleCI's ``parallelism``, Buildkite's ``parallelism``; Slurm's job arrays follow them.
FAMILIES = (
    Family("Bazel", "TEST_SHARD_INDEX", "TEST_TOTAL_SHARDS", 0),
    Family("PyTorch's CI", "SHARD_NUMBER", "NUM_TEST_SHARDS", 1),
    Family("GitLab", "CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
    Family("CircleCI", "CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0),
    Family("Buildkite", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0),
)
SLURM = Family("Slurm", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", 0)
SLURM_MIN, SLURM_STEP = "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"
STATUS_FILE = "TEST_SHARD_STATUS_FILE"

# Every variable that ``shard_from_environ`` reads.
VARIABLES = (*(name for f in (*FAMILIES, SLURM) for name in (f.index, f.total)), SLURM_MIN, SLURM_STEP)


def without_shard(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the shard variables, for processes that must not split the tests again."""
    return {name: value for name, value in environ.items() if name not in VARIABLES}


def is_sharded(environ: Mapping[str, str]) -> bool:
    """Whether ``environ`` sets a variable of any family; the values are not checked."""
    return any(environ.get(name) for f in (*FAMILIES, SLURM) for name in (f.index, f.total))


def shard_from_environ(environ: Mapping[str, str]) -> Shard | None:
    """The shard that the environment names; None where it names none, or the only one of one.

    All families are read. An empty variable counts as unset. A total of 1 means that this CI system did not
    split the job, and another family may name a shard (GitLab sets only CI_NODE_TOTAL=1 in such jobs).
    UsageError, with one line that names the variables: for one variable of a pair without the other, for a
    value that is not a whole number or out of range, and for two families that name different shards.
    """
    said = [(family, shard) for family in FAMILIES if (shard := _read(family, environ))]
    slurm = _read_slurm(environ)
    if slurm is not None:
        said.append((SLURM, slurm))
    if not said:
        return None
    family, shard = said[0]
    for other, differs in said[1:]:
        if differs != shard:
            raise UsageError(
                f"{family.names} say shard {shard} and {other.names} say {differs} (counted from 1): "
                f"unset one of the two pairs"
            )
    return shard


def touch_status_file(environ: Mapping[str, str]) -> None:
    """Creates the file that ``TEST_SHARD_STATUS_FILE`` names, which tells Bazel that this runner shards.

    UsageError where the file cannot be created.
    """
    path = environ.get(STATUS_FILE)
    if not path:
        return
    try:
        Path(path).touch()
    except OSError as error:
        raise UsageError(f"{STATUS_FILE}={path!r} cannot be created: {error.strerror}") from None


def _read(family: Family, environ: Mapping[str, str]) -> Shard | None:
    """The shard that one family names; None where its variables are unset, or the total is 1."""
    pair = _pair(family, environ)
    if pair is None:
        return None
    index, total = pair
    return _shard(family, index, total, family.first, 1)


def _read_slurm(environ: Mapping[str, str]) -> Shard | None:
    """The shard that a Slurm job array names. Task ids go from ``_MIN`` in steps of ``_STEP``, else of 1."""
    pair = _pair(SLURM, environ)
    if pair is None:
        return None
    index, total = pair
    first = _number(SLURM_MIN, environ)
    if first is None:
        raise UsageError(f"{SLURM.names} are set without {SLURM_MIN}: set it to the array's first task id")
    step = _number(SLURM_STEP, environ) or 1
    return _shard(SLURM, index, total, first, step)


def _pair(family: Family, environ: Mapping[str, str]) -> tuple[int, int] | None:
    index, total = _number(family.index, environ), _number(family.total, environ)
    if total is not None and not 1 <= total <= LARGEST_TOTAL:
        raise UsageError(f"{family.total}={total} is out of range: write a number from 1 to {LARGEST_TOTAL}")
    if index is None and total in (None, 1):
        return None
    if index is None or total is None:
        there, missing = (family.total, family.index) if index is None else (family.index, family.total)
        raise UsageError(f"{there} is set without {missing}: set both or neither")
    return index, total


def _shard(family: Family, index: int, total: int, first: int, step: int) -> Shard | None:
    last = first + step * (total - 1)
    if not first <= index <= last or (index - first) % step:
        steps = f" in steps of {step}" if step > 1 else ""
        raise UsageError(
            f"{family.index}={index} is out of range: with {family.total}={total} "
            f"it goes from {first} to {last}{steps}"
        )
    return Shard((index - first) // step + 1, total) if total > 1 else None


def _number(name: str, environ: Mapping[str, str]) -> int | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text) is None:
        raise UsageError(f"{name}={text[:40]!r}: write a whole number")
    return int(text)
