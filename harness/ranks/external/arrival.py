"""What processes say of themselves before the first test, and why some cannot work together: ``Arrival``."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from harness import source_digests
from harness.ranks.external.unittest_run import UnittestRun

# A file in rank 0's temporary directory, by which another host knows that it sees the same directory.
TOKEN = "rank-0"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One process: its versions, the digests of its sources, the ids of its tests, whether it sees the
    directory.

    ``tests`` is empty where nothing is known of them.
    """

    rank: int
    host: str = ""
    python: str = ""
    torch: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    sees_directory: bool = True


def own_arrival(rank: int, run: UnittestRun, directory: str, token: str) -> Arrival:
    """The arrival of this process; ``token`` is what rank 0 has written into its directory."""
    import torch

    return Arrival(
        rank,
        socket.gethostname(),
        platform.python_version(),
        str(torch.__version__),
        source_digests.of_modules(run.modules),
        run.tests,
        _read(os.path.join(directory, TOKEN)) == token,
    )


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, ValueError):
        return None


def to_text(arrival: Arrival) -> str:
    """The arrival as text; lossless with ``from_text``."""
    return json.dumps(asdict(arrival))


def from_text(text: str) -> Arrival:
    """The arrival that ``to_text`` has written."""
    value = json.loads(text)
    return Arrival(**{**value, "tests": tuple(value["tests"])})


def refusal(arrivals: Sequence[Arrival], directory: str) -> str | None:
    """Why these processes, rank 0 first, cannot run tests together; None where they can. One line."""
    first = arrivals[0]
    for other in arrivals[1:]:
        reason = _difference(first, other)
        if reason is not None:
            return f"ranks 0 and {other.rank} ({_hosts(first, other)}) cannot work together: {reason}"
    blind = next((each for each in arrivals if not each.sees_directory), None)
    if blind is not None:
        return (
            f"rank {blind.rank} on {blind.host} does not see rank 0's {directory}: set TMPDIR to a directory "
            "that all hosts share"
        )
    return None


def _hosts(first: Arrival, other: Arrival) -> str:
    return f"on {first.host}" if first.host == other.host else f"on {first.host} and {other.host}"


def _difference(first: Arrival, other: Arrival) -> str | None:
    for what, ours, theirs in (
        ("torch", first.torch, other.torch),
        ("Python", first.python, other.python),
    ):
        if ours != theirs:
            return f"{what} {ours} and {theirs}"
    changed = source_digests.differing(first.sources, other.sources)
    if changed:
        return f"the source of {', '.join(changed[:3])} differs"
    if first.tests and other.tests and first.tests != other.tests:
        return _of_tests(first, other)
    return None


def _of_tests(first: Arrival, other: Arrival) -> str:
    for here, there in ((first, other), (other, first)):
        more = next((test for test in here.tests if test not in there.tests), None)
        if more is not None:
            return f"rank {here.rank} runs {more}, and rank {there.rank} does not"
    return "they run the same tests in another order"
