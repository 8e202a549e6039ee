"""Says how much of the suites a change of one file runs, by the map of which files tests execute.

    python tools/map_shares.py [MAP]

A file's share is the recorded time (``suites/timings.json``) of the tests that execute it, of that of all
tests in the map. Printed are the median of torch's files, how many have at most a quarter, and the largest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import UsageError
from harness.impact import impact_map
from harness.impact.impact_map import ImpactMap
from harness.runner.scheduling import timings as timings_file
from harness.runner.selection import affected_tests

OF_TORCH = "torch/"
# The part of the suites' time that a change of a file should run at most.
WANTED = 0.25
# So many of the files that run most are named.
NAMED = 10


@dataclass(frozen=True, slots=True)
class Share:
    """Of one file: how many tests execute it, and the part of all tests' time that these take."""

    file: str
    tests: int
    time: float


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the shares; returns 0, and 2 where there is no map."""
    parser = argparse.ArgumentParser(prog="map_shares.py", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("map", metavar="MAP", nargs="?", type=Path, default=affected_tests.of_suites(),
        help="default: the map of the suites")  # fmt: skip
    try:
        known = impact_map.read(parser.parse_args(argv).map)
        if not known.tests:
            raise UsageError("there is no map")
        print(text(known, timings_file.load(timings_file.default_path())[0].estimates(known.tests)))
    except UsageError as error:
        print(f"map_shares: {error}", file=sys.stderr)
        return 2
    return 0


def shares(known: ImpactMap, seconds: Mapping[str, float]) -> list[Share]:
    """The shares of the files of torch in a map, smallest first; ``seconds`` are those of its tests."""
    executing: dict[str, list[str]] = defaultdict(list)
    for test, files in known.tests.items():
        for file in files:
            if file.startswith(OF_TORCH):
                executing[file].append(test)
    whole = sum(seconds[test] for test in known.tests)
    found = [Share(f, len(tests), sum(seconds[t] for t in tests) / whole) for f, tests in executing.items()]
    return sorted(found, key=lambda share: (share.time, share.file))


def text(known: ImpactMap, seconds: Mapping[str, float]) -> str:
    """The lines that are printed."""
    found = shares(known, seconds)
    small = sum(share.time <= WANTED for share in found)
    tests, time = (
        statistics.median(values) for values in zip(*((s.tests, s.time) for s in found), strict=True)
    )
    whole = sum(seconds[test] for test in known.tests)
    return "\n".join(
        [
            f"torch {known.torch}: {len(known.tests)} tests, {whole:.0f} s, {len(found)} files of torch",
            f"median file: {tests:g} tests, {time:.1%} of the time",
            f"at most {WANTED:.0%} of the time: {small} files ({small / len(found):.0%})",
            *(f"{share.time:6.1%} {share.tests:5} tests  {share.file}" for share in found[: -NAMED - 1 : -1]),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
