"""The lines by which a driver tells the tool where it is: which case begins, and what came of one."""

from __future__ import annotations

from typing import NamedTuple

from tools.verdict_fuzzing.observation import Observation


class Told(NamedTuple):
    """One line: the seed of a case, and what came of it; None where it begins."""

    seed: int
    came: Observation | None


def begin(out: str, seed: int) -> None:
    """Tells that a case begins."""
    _append(out, str(seed))


def end(out: str, seed: int, came: Observation) -> None:
    """Tells what came of a case."""
    _append(out, f"{seed} {came.dumps()}")


def read(line: str) -> Told:
    """What a line tells."""
    seed, _, came = line.partition(" ")
    return Told(int(seed), Observation.loads(came) if came else None)


def lines(text: str) -> list[str]:
    """The lines of what was told so far, without one that is still being written."""
    return text.split("\n")[:-1]


def _append(out: str, line: str) -> None:
    # Opened for each line, so that no rank inherits a descriptor that it could write garbage to.
    with open(out, "a") as file:
        file.write(line + "\n")
