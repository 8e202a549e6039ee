"""Runs the tests again and again on a busy machine and reports each test that ever failed.

    python tools/soak.py --minutes 60 --load 10
    python tools/soak.py --minutes 10 --only selftest.ranks c10d --shards 4

A round is one run of ``run_tests.py`` on a shard of one name, with a drawn order, number of jobs, seed and
niceness, beside processes that load the machine: busy loops, one that touches and releases memory, one that
writes to TMPDIR and waits for the disk. Every shard of every name has its round before one has its second.
What a round is follows from ``--seed`` and its number, so that the command in the report repeats it. The
files of a round in which something failed are kept.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import UsageError
from harness.record import TestRecord
from harness.runner import journal
from harness.setting_values import LARGEST_SEED
from harness.settings import EnvVar
from harness.system import processors
from tools.machine_load import machine_load
from tools.soak_rounds import SUITES, Result, Round, Soak, draw, judge, report

ROOT = Path(__file__).resolve().parents[1]
# Shards for each unit of 1 + load, so that a round takes some minutes whatever the load is.
SHARDS_FOR_EACH_LOOP = 2
# Beside more loops a test waits for its turn rather than runs.
LARGEST_LOAD = 10
# Seconds for a run to end by itself when the soak's time is over: under load even that takes long.
ENDING_S = 120.0

EXIT_CODES = """exit codes:
  0  no test failed
  1  a test failed, errored or was flaky, or a run broke: it ended by something else than its tests
  2  a wrong argument, or a run that refused its arguments"""


def rounds(soak: Soak, numbers: Sequence[int], until_s: float, root: Path) -> Iterator[Result]:
    """Runs the rounds of these numbers, as many as end before ``until_s`` on the monotonic clock."""
    for number in numbers:
        drawn = draw(soak, number)
        began_s = time.monotonic()
        result = _run(drawn, root, until_s - began_s)
        said = "" if result.ok else f", {len(result.failed)} failed {result.trouble}".rstrip()
        print(f"{drawn}: {len(result.ran)} tests{said}, {time.monotonic() - began_s:.0f} s", flush=True)
        yield result
        if result.ok:
            shutil.rmtree(result.directory)
        if result.cut or time.monotonic() >= until_s:
            break


def _run(drawn: Round, root: Path, seconds: float) -> Result:
    directory = root / f"round-{drawn.number:04}"
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"--report-dir: {directory} cannot be made: {error.strerror}") from None
    command = ["nice", "-n", str(drawn.nice), sys.executable, str(ROOT / "run_tests.py"), *drawn.arguments()]
    cut = False
    with open(directory / "output", "wb") as output:
        process = subprocess.Popen(
            [*command, "-q", f"--report-dir={directory}"],
            cwd=ROOT,
            # The state directory keeps the user's --last-failed as it is.
            env={**os.environ, EnvVar.STATE_DIR: str(root / "state")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the soak, which ends the run
        )
        with _ended(process):
            try:
                with machine_load(loops=drawn.loops, memory=drawn.memory, disk=drawn.disk):
                    process.wait(seconds)
            except (KeyboardInterrupt, subprocess.TimeoutExpired):
                cut = True
    return judge(drawn, directory, _records(directory), process.returncode, cut=cut)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the run on leaving: as Ctrl-C does, and by SIGKILL if that takes too long or is interrupted."""
    try:
        yield
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
    finally:
        process.kill()
        process.wait()


def _records(directory: Path) -> tuple[TestRecord, ...]:
    """What the run has finished, whether or not it got to write its results; none where it never began."""
    with contextlib.suppress(UsageError):
        return journal.read(directory).records
    return ()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):  # what a terminal sends, and a CI system
        signal.signal(number, signal.default_int_handler)
    try:
        return _soak(options)
    except UsageError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2


def _soak(options: argparse.Namespace) -> int:
    if min(options.minutes, options.shards, options.first, options.rounds) < 0 or not options.first:
        raise UsageError("write numbers above 0")
    seed = random.SystemRandom().randrange(LARGEST_SEED) if options.seed is None else options.seed
    shards = options.shards or SHARDS_FOR_EACH_LOOP * (1 + options.load)
    soak = Soak(seed, options.load, tuple(options.only), shards, processors.available())
    root = Path(options.report_dir or tempfile.mkdtemp(prefix="harness-soak-")).resolve()
    until_s = time.monotonic() + 60 * options.minutes
    print(f"soak with seed {seed}, files in {root}", flush=True)
    numbers = range(options.first, options.first + options.rounds)
    results: list[Result] = []
    with contextlib.suppress(KeyboardInterrupt):
        for result in rounds(soak, numbers, until_s, root):
            results.append(result)
    print(*report(soak, results), sep="\n")
    return 0 if all(result.ok for result in results) else 1


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="soak.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", metavar="N", type=float, default=60.0, help="end after so long (default: 60)")
    add("--load", metavar="K", type=int, choices=range(LARGEST_LOAD + 1), default=2,
        help=f"busy loops on each processor, up to {LARGEST_LOAD} (default: 2)")  # fmt: skip
    add("--only", metavar="NAME", nargs="+", default=["selftest", SUITES],
        help=f"what to run, by names of run_tests.py; `{SUITES}` is every standard suite "
        f"(default: selftest {SUITES})")  # fmt: skip
    add("--shards", metavar="N", type=int, default=0,
        help="cut each name into N shards, one a round (default: more of them under more load)")  # fmt: skip
    add(
        "--seed",
        metavar="S",
        type=int,
        help="what the rounds are drawn from (default: another one each time)",
    )
    add("--first", metavar="N", type=int, default=1, help="number of the first round (default: 1)")
    add(
        "--rounds",
        metavar="N",
        type=int,
        default=1_000_000,
        help="end after N rounds, even if there is time left",
    )
    add("--report-dir", metavar="DIR",
        help="where the files of rounds go (default: a new directory in TMPDIR)")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
