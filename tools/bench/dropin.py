"""Compares upstream's own harness with the drop-in on the tests that torch's wheel carries.

    python tools/bench/dropin.py                          a sample of tests, both side by side
    python tools/bench/dropin.py --full                   all of them, and by run_tests.py; a quarter-hour
    python tools/bench/dropin.py --ours                   all of them, the drop-in only, against kept verdicts
    python tools/bench/dropin.py --ours --sizes 2,3,4

The tests are those of ``distributed_test.py`` (gloo), or of any file in upstream's style (``--file``), as
``suites/selftest/upstream/rpc_spawn.py`` is, with the wheel's rpc tests. All ways run the same unmodified
file, one after the other; wall time includes the start of Python and all imports. ``--full`` also runs the
file by ``run_tests.py --drop-in``, with its default number of jobs. Every verdict (passed, skipped, not
passed) that differs is listed, and the exit code is then 1. ``--record`` keeps upstream's verdicts of a
``--full`` run, for later runs and the self-tests to compare with.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.outcomes import Status
from harness.settings import EnvVar
from tools.bench.upstream_file import NOT_PASSED, PASSED, SKIPPED, TimedVerdict, read

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "suites" / "selftest" / "upstream" / "distributed_spawn.py"
KEPT = ROOT / "suites" / "selftest" / "upstream" / "kept"
# One in so many passing tests is in the sample: a dozen tests, about a minute of upstream's time.
SAMPLE_STEP = 8
RUNNER = "run_tests.py"


@dataclass(frozen=True, slots=True)
class Played:
    """One run of the file: the way it ran, wall seconds from start to exit, and the verdicts in order."""

    way: str
    world_size: int
    wall_s: float
    verdicts: tuple[TimedVerdict, ...]

    @property
    def tests_s(self) -> float:
        """The seconds spent within tests, without the start of Python and the imports."""
        return sum(v.seconds for v in self.verdicts)

    def by_test(self) -> dict[str, str]:
        """The verdicts by the test's id."""
        return {v.test: v.verdict for v in self.verdicts}


def play(way: str, file: Path, world_size: int, tests: Sequence[str] = ()) -> Played:
    """Runs the file one way in a process of its own; raises RuntimeError if no test ran.

    By ``run_tests.py`` the whole file runs, whatever ``tests`` are.
    """
    environ = {
        **os.environ,
        EnvVar.BACKEND: "gloo",
        EnvVar.WORLD_SIZE: str(world_size),
        "PYTHONPATH": str(ROOT),
    }
    with tempfile.TemporaryDirectory(prefix="bench-dropin-") as directory:
        results, log = Path(directory, "results.jsonl"), Path(directory, "log")
        if way == RUNNER:
            command = [str(ROOT / "run_tests.py"), "--drop-in", str(file), "-q", "--report-dir", directory]
        else:
            command = ["-m", "tools.bench.upstream_file", way, str(results), str(file), *tests]
        started = time.monotonic()
        with log.open("wb") as output:
            code = subprocess.run(
                [sys.executable, *command],
                cwd=ROOT,
                env=environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        wall_s = time.monotonic() - started
        if not results.exists():
            raise RuntimeError(
                f"{way}: no test ran (exit code {code})\n{log.read_text(errors='replace')[-4000:]}"
            )
        lines = results.read_text().splitlines()
        return Played(way, world_size, wall_s, tuple(_of_runner(lines) if way == RUNNER else read(lines)))


def _of_runner(lines: Iterable[str]) -> Iterator[TimedVerdict]:
    """The verdicts in the lines of a run's ``results.jsonl``."""
    for entry in map(json.loads, lines):
        if entry["kind"] == "test":
            status = entry["status"]
            verdict = {
                Status.PASSED.value: PASSED,
                Status.XFAILED.value: PASSED,
                Status.SKIPPED.value: SKIPPED,
            }.get(status, NOT_PASSED)
            yield TimedVerdict(".".join(entry["id"].rsplit(".", 2)[1:]), verdict, entry["duration_s"])


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """A line for each test whose verdict is not the expected one, or that only one side has."""
    lines = []
    for test in sorted(expected.keys() | found.keys()):
        theirs, ours = expected.get(test, "not run"), found.get(test, "not run")
        if theirs != ours:
            lines.append(f"{test}: upstream {theirs}, drop-in {ours}")
    return lines


def kept(world_size: int) -> Path:
    """The file that keeps upstream's verdicts at a world size."""
    return KEPT / f"distributed_test-gloo-{world_size}.txt"


def load(path: Path) -> dict[str, str]:
    """Reads verdicts by test from lines of ``verdict: test``; a line that starts with # is a comment."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.partition(": ") for line in lines]
    return {test: verdict for verdict, _, test in pairs}


def save(path: Path, verdicts: Mapping[str, str], torch_version: str) -> None:
    """Writes verdicts by test to a file that ``load`` reads."""
    lines = [f"{verdict}: {test}" for test, verdict in sorted(verdicts.items())]
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# Upstream's own verdicts, torch {torch_version}.\n" + "\n".join(lines) + "\n")


def sample(verdicts: Mapping[str, str]) -> list[str]:
    """One in ``SAMPLE_STEP`` of the passing tests, in order of their ids."""
    return sorted(test for test, verdict in verdicts.items() if verdict == PASSED)[::SAMPLE_STEP]


def summary(played: Played) -> str:
    """One line that sums up a run."""
    counts = Counter(v.verdict for v in played.verdicts)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (PASSED, SKIPPED, NOT_PASSED))
    return (
        f"world size {played.world_size}, {played.way:12}: {len(played.verdicts)} tests, {parts}; "
        f"{played.wall_s:.1f} s, {played.tests_s:.1f} s of it in tests"
    )


def compare(arguments: argparse.Namespace, world_size: int) -> bool:
    """Runs and compares at one world size; True if no verdict differs or there is none to compare with."""
    known = load(kept(world_size)) if arguments.file == FILE and kept(world_size).exists() else {}
    tests: list[str] = arguments.tests
    if not (arguments.full or arguments.ours or tests):
        tests = sample(known or play("drop-in", arguments.file, world_size).by_test())
    ours = []
    for way in ("drop-in", RUNNER) if arguments.full and not tests else ("drop-in",):
        ours.append(play(way, arguments.file, world_size, tests))
        print(summary(ours[-1]), flush=True)
    if arguments.ours:
        expected = {test: known[test] for test in (tests or known) if test in known}
    else:
        expected = _beside(ours, arguments, tests)
    found = [line for way in ours for line in (differences(expected, way.by_test()) if expected else ())]
    print(f"{len(found)} verdicts differ" if expected else "no verdicts of upstream's to compare with")
    for line in found:
        print(f"  {line}")
    return not found


def _beside(ours: Sequence[Played], arguments: argparse.Namespace, tests: Sequence[str]) -> dict[str, str]:
    """Runs the same tests on upstream's harness, prints how the times compare, and returns the verdicts."""
    theirs = play("upstream", arguments.file, ours[0].world_size, tests)
    print(summary(theirs))
    for way in ours:
        whole, within = theirs.wall_s / way.wall_s, theirs.tests_s / way.tests_s
        print(f"{way.way} is {whole:.1f} x faster than upstream, {within:.1f} x within tests")
    if arguments.record and arguments.full:
        save(kept(theirs.world_size), theirs.by_test(), _torch_version())
    return theirs.by_test()


def _torch_version() -> str:
    from importlib.metadata import version

    return version("torch")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; returns 0 if every verdict is the same, 1 if one differs, 2 for wrong arguments."""
    arguments = _parser().parse_args(argv)
    same = [compare(arguments, size) for size in arguments.sizes]
    return 0 if all(same) else 1


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="dropin.py",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tests", nargs="*", metavar="TEST", help="Case.test, instead of the sample")
    parser.add_argument("--file", type=Path, default=FILE, help="another file in upstream's style")
    parser.add_argument("--sizes", type=_sizes, default=(2,), metavar="N,N", help="world sizes")
    parser.add_argument("--full", action="store_true", help="every test, all ways")
    parser.add_argument("--ours", action="store_true", help="every test, the drop-in only")
    parser.add_argument("--record", action="store_true", help="keep upstream's verdicts of a --full run")
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers above 0, as in 2,3,4")
    return tuple(int(part) for part in parts)


if __name__ == "__main__":
    sys.exit(main())
