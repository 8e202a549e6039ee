"""Measures what ``run_tests.py`` costs: the standard run by jobs and by shards, and its overhead a test.

    python tools/bench/runner.py                 some ten minutes on two cores
    python tools/bench/runner.py --only overhead

One run measures everything in turns on the same machine. Compare ratios, not seconds, between two runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.bench.tables import seconds
from tools.simple_table import Table, as_rst

ROOT = Path(__file__).resolve().parents[2]
JOBS = (1, 2, 4)
SHARDS = (1, 2, 4)
TRIVIAL_TESTS = (10, 1_000, 10_000)
# The number of tests in a generated module: about as many as a large module of the suites has.
TESTS_A_MODULE = 500
PARTS = ("jobs", "shards", "overhead")


class BenchRunFailed(Exception):
    """A measured run did not pass."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; returns 0 for success, 1 if a measured run failed, 2 for wrong arguments."""
    arguments = _parser().parse_args(argv)
    tables = {"jobs": by_jobs, "shards": by_shards, "overhead": overhead}
    try:
        for part in arguments.only or PARTS:
            print(as_rst(tables[part](arguments.names)), end="\n\n", flush=True)
    except BenchRunFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="runner.py", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="what to run (default: every standard suite)"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this; repeatable")
    return parser


def by_jobs(names: Sequence[str]) -> Table:
    """Measures the run with 1, 2 and 4 jobs."""
    first = 0.0
    rows = []
    for jobs in JOBS:
        took, tests = _timed([*names, "--jobs", str(jobs)])
        first = first or took
        rows.append((str(jobs), str(tests), seconds(took), f"{first / took:.2f} x"))
    return Table(("jobs", "tests", "wall time", "faster than 1 job"), tuple(rows))


def by_shards(names: Sequence[str]) -> Table:
    """Measures the run in 1, 2 and 4 shards, one at a time, and how even they are: predicted and measured."""
    rows = []
    for count in SHARDS:
        took = [_timed([*names, "--shard", f"{i}/{count}"]) for i in range(1, count + 1)]
        walls = [wall for wall, _ in took]
        rows.append(
            (
                str(count),
                " + ".join(str(tests) for _, tests in took),
                seconds(max(walls)),
                f"{max(walls) * count / sum(walls):.2f}",
                f"{_predicted(names, count):.2f}",
            )
        )
    heading = ("shards", "tests", "slowest shard", "max/mean measured", "max/mean predicted")
    return Table(heading, tuple(rows))


def overhead(_: Sequence[str]) -> Table:
    """Measures runs of tests that do nothing, so that all of the time is the runner's overhead."""
    rows = []
    for count in TRIVIAL_TESTS:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            _write_trivial(Path(directory), count)
            took, tests = _timed([directory, "--jobs", "1"])
        assert tests == count, (tests, count)
        rows.append((str(count), seconds(took), f"{took / count * 1e3:.2f} ms"))
    return Table(("trivial tests", "wall time", "a test, start included"), tuple(rows))


def _timed(arguments: Sequence[str]) -> tuple[float, int]:
    """The wall seconds of a run and the number of its tests; raises BenchRunFailed if it did not pass."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        started = time.monotonic()
        done = _run_tests([*arguments, "-q", "--report-dir", directory])
        took = time.monotonic() - started
        if done.returncode != 0:
            raise BenchRunFailed(
                f"run_tests.py {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-3000:]}"
            )
        return took, sum(1 for _ in _records(Path(directory, "results.jsonl")))


def _run_tests(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "run_tests.py"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _records(results: Path) -> Iterator[dict[str, object]]:
    for line in results.read_text(encoding="utf-8").splitlines():
        value = json.loads(line)
        if value.get("kind") == "test":
            yield value


def _predicted(names: Sequence[str], count: int) -> float:
    """The largest shard's time over the mean, by recorded times; 1.0 is a perfect split."""
    shares = []
    for index in range(1, count + 1):
        listed = _run_tests([*names, "--list", "--json", "--shard", f"{index}/{count}"]).stdout
        shares.append(sum(float(json.loads(line)["expected_s"]) for line in listed.splitlines() if line))
    return max(shares) * count / sum(shares)


def _write_trivial(directory: Path, count: int) -> None:
    for module in range(-(-count // TESTS_A_MODULE)):
        tests = range(module * TESTS_A_MODULE, min(count, (module + 1) * TESTS_A_MODULE))
        body = "".join(f"    def test_{i}(self):\n        pass\n" for i in tests)
        text = f"import unittest\n\n\nclass Trivial(unittest.TestCase):\n{body}"
        (directory / f"test_trivial_{module}.py").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
