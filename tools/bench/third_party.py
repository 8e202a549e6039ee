"""Compares verdicts and times of other projects' test files: pytest alone, and both ways of the drop-in.

    python tools/bench/third_party.py                          the files of tools/bench/third_party.json
    python tools/bench/third_party.py --only autoparallel      those whose name has this in it
    python tools/bench/third_party.py --repeat 3 FILE ...      files that are here, from the working directory

Each file runs unedited by ``python -m pytest`` on upstream's ranks, by ``pytest --drop-in`` and by
``run_tests.py --drop-in``, one after the other, and again for each repeat. Verdicts are compared test by test
(passed, skipped, not passed; an expected failure is passed). Times are wall seconds of whole commands, with
the start of Python and all imports: medians, and how many times as fast as pytest alone; "CPU" are processor
seconds of all processes, three numbers for the three ways. The files of a list are fetched by git into the
directory of --checkouts; a repository that is there, as OWNER+NAME, is used.

Exit codes: 0 no verdict differs without a reason in the list, 1 one does, 2 wrong arguments or a repository
that cannot be fetched.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.errors import UsageError
from tools.bench import junit_verdicts, third_party_list
from tools.bench.third_party_list import Reason, ThirdPartyFile
from tools.bench.upstream_file import SKIPPED
from tools.simple_table import Table, as_rst

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_suffix(".json")
CHECKOUTS = ROOT / ".harness" / "third_party"
UPSTREAM, PLUGIN, RUNNER = WAYS = ("pytest", "pytest --drop-in", "run_tests.py --drop-in")
DEADLINE_S = 900.0
NOT_RUN, NOT_ENDED = "not run", "not ended"


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a file: its seconds, and the verdicts by test; ``problem`` says why there are none.

    ``cpu_s`` is without processes for which their parent has not waited.
    """

    wall_s: float
    verdicts: dict[str, str]
    problem: str = ""
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A test on which a way of the drop-in differs from upstream; ``reason`` is "" where none is known."""

    test: str
    way: str
    upstream: str
    ours: str
    reason: str = ""

    def __str__(self) -> str:
        why = f" (known: {self.reason})" if self.reason else ""
        return f"{self.test}: {UPSTREAM} {self.upstream}, {self.way} {self.ours}{why}"


def command(way: str, file: str, directory: Path) -> list[str]:
    """The command that runs a file one way and writes ``junit.xml`` into a directory."""
    if way == RUNNER:
        return [
            sys.executable,
            str(ROOT / "run_tests.py"),
            "--drop-in",
            file,
            "-q",
            f"--report-dir={directory}",
        ]
    # Neither an installed torch-harness nor a random order, in which not all files pass, is to be compared.
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:torch_harness",
        "-p",
        "no:randomly",
        f"--junitxml={directory / 'junit.xml'}",
    ]
    ours = ["-p", "harness.pytest_plugin.plugin", "--drop-in"] if way == PLUGIN else []
    return [sys.executable, "-m", "pytest", *words, *ours, file]


def environ(way: str, file: ThirdPartyFile, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a run: this one's without the harness's variables, and the file's paths."""
    kept = {name: value for name, value in variables.items() if not name.startswith("HARNESS_")}
    # The tree stands last: a project may have a package called tools.
    paths = [*map(str, file.python_path), *([str(ROOT)] if way != UPSTREAM else [])]
    given = [
        path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", str(ROOT))
    ]
    return {**kept, "PYTHONPATH": os.pathsep.join([*given, *paths])}


def play(way: str, file: ThirdPartyFile, deadline_s: float) -> Played:
    """Runs a file one way in a process of its own; one that has not ended by the deadline is ended."""
    with tempfile.TemporaryDirectory(prefix="bench-third-party-") as directory:
        log = Path(directory, "log")
        started, used = time.monotonic(), _cpu_s()
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(way, file.file, Path(directory)),
                cwd=file.root,
                env=environ(way, file, os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ended = _wait(process, deadline_s)
        wall_s, cpu_s = time.monotonic() - started, _cpu_s() - used
        if not ended:
            return Played(
                wall_s, {junit_verdicts.FILE: NOT_ENDED}, f"not ended within {deadline_s:g} s", cpu_s
            )
        try:
            verdicts = junit_verdicts.read(Path(directory, "junit.xml"), Path(file.file).stem)
            return Played(wall_s, verdicts, cpu_s=cpu_s)
        except (OSError, ValueError):
            lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
            problem = f"exit code {process.returncode} and no junit.xml: {lines[-1]}"
            return Played(wall_s, {}, problem, cpu_s)


def _cpu_s() -> float:
    """Processor seconds of this process's children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait(process: subprocess.Popen[bytes], deadline_s: float) -> bool:
    """Whether a process ends in time; what is left of its group then ends, too."""
    try:
        process.wait(deadline_s)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def differences(
    upstream: Mapping[str, str], way: str, ours: Mapping[str, str], reasons: Sequence[Reason]
) -> list[Difference]:
    """The tests on which the verdicts of one way differ from upstream's, or that only one has."""
    found = []
    for test in sorted(upstream.keys() | ours.keys()):
        theirs, here = upstream.get(test, NOT_RUN), ours.get(test, NOT_RUN)
        if theirs != here:
            known = (r.reason for r in reasons if (r.test, r.upstream, r.ours) == (test, theirs, here))
            found.append(Difference(test, way, theirs, here, next(known, "")))
    return found


def compare(file: ThirdPartyFile, repeat: int, deadline_s: float) -> tuple[tuple[str, ...], list[Difference]]:
    """Runs a file all ways and prints what differs; returns its row of the table and the differences."""
    played: dict[str, list[Played]] = {way: [] for way in WAYS}
    print(f"{file.root.name} {file.file}", flush=True)
    for _ in range(repeat):
        for way, runs in played.items():
            runs.append(play(way, file, deadline_s))
            if runs[-1].problem:
                print(f"  {way}: {runs[-1].problem}", flush=True)
    verdicts = {way: junit_verdicts.joined(run.verdicts for run in runs) for way, runs in played.items()}
    found = [
        each
        for way in (PLUGIN, RUNNER)
        for each in differences(verdicts[UPSTREAM], way, verdicts[way], file.reasons)
    ]
    for each in found:
        print(f"  {each}", flush=True)
    times = {way: statistics.median(run.wall_s for run in runs) for way, runs in played.items()}
    ratios = [f"{times[way]:.1f} s, {times[UPSTREAM] / times[way]:.1f} x" for way in (PLUGIN, RUNNER)]
    cpu = [f"{statistics.median(run.cpu_s for run in runs):.1f}" for runs in played.values()]
    upstream = tuple(verdicts[UPSTREAM].values())
    return (
        file.file,
        str(len(upstream)),
        str(upstream.count(SKIPPED)),
        f"{times[UPSTREAM]:.1f} s",
        *ratios,
        ", ".join(cpu),
        str(len(found)),
    ), found


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; see its description for the exit codes."""
    arguments = _parser().parse_args(argv)
    try:
        files = _files(arguments)
    except UsageError as error:
        print(f"third_party.py: error: {error}", file=sys.stderr)
        return 2
    rows, found = [], []
    for file in files:
        row, different = compare(file, arguments.repeat, arguments.deadline)
        rows.append(row)
        found += different
    print(as_rst(Table(("file", "tests", "skipped", *WAYS, "CPU", "differ"), tuple(rows))))
    known = sum(bool(each.reason) for each in found)
    print(f"{len(found)} verdicts differ" + (f", {known} of them with a known reason" if known else ""))
    return 0 if known == len(found) else 1


def _files(arguments: argparse.Namespace) -> list[ThirdPartyFile]:
    """The files to run; UsageError where one is missing, and where none is left."""
    if arguments.files:
        for each in arguments.files:
            if not Path(each).is_file():
                raise UsageError(f"{each} does not exist: name test files")
        return [ThirdPartyFile(Path.cwd(), each, (Path.cwd(),)) for each in arguments.files]
    files = []
    for repository in third_party_list.load(arguments.list):
        wanted = [f for f in repository.files if arguments.only in f"{repository.name}/{f}"]
        if wanted:
            known = third_party_list.files_of(repository, arguments.checkouts)
            files += [each for each in known if each.file in wanted]
    if not files:
        raise UsageError(f"no file of {arguments.list} has {arguments.only!r} in its name")
    return files


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="third_party.py",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="test files, instead of those of a list")
    parser.add_argument(
        "--list", type=Path, default=LIST, metavar="JSON", help="another list of repositories"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="files with this in OWNER/NAME/PATH alone")
    parser.add_argument(
        "--checkouts",
        type=Path,
        default=CHECKOUTS,
        metavar="DIR",
        help=f"where they are (default {CHECKOUTS})",
    )
    parser.add_argument("--repeat", type=_count, default=1, metavar="N", help="runs of each file, each way")
    parser.add_argument(
        "--deadline", type=_seconds, default=DEADLINE_S, metavar="S", help="of a run (default %(default)g s)"
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: write seconds above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
