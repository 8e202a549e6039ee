"""Compares verdicts and times of other projects' test files: pytest alone, and both ways of the drop-in.

    python tools/bench/third_party.py                          the files of tools/bench/third_party.json
    python tools/bench/third_party.py --only autoparallel      those whose name has this in it
    python tools/bench/third_party.py --repeat 3 FILE ...      files that are here, from the working directory

Each file runs unedited by ``python -m pytest`` on upstream's ranks, by ``pytest --drop-in`` and by
``run_tests.py --drop-in``, one after the other, and again for each repeat. Verdicts are compared test by test
(passed, skipped, not passed; an expected failure is passed). Times are wall seconds of whole commands, with
the start of Python and all imports: medians, and how many times as fast as pytest alone; "CPU" are processor
seconds of all processes, three numbers for the three ways. "import" are the seconds and processor seconds of
a process that imports the file and does nothing else, which every way has to do once; as in the ways of the
drop-in, and not in pytest alone, no garbage is collected meanwhile. The files of a list
are fetched by git into the directory of --checkouts; a repository that is there, as OWNER+NAME, is used.

Exit codes: 0 no verdict differs without a reason in the list, 1 one does, 2 wrong arguments or a repository
that cannot be fetched.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.errors import UsageError
from tools.bench import junit_verdicts, third_party_list
from tools.bench.third_party_list import Reason, ThirdPartyFile
from tools.bench.third_party_runs import PLUGIN, ROOT, RUNNER, UPSTREAM, WAYS, Played, import_alone, play
from tools.bench.upstream_file import SKIPPED
from tools.simple_table import Table, as_rst

LIST = Path(__file__).with_suffix(".json")
CHECKOUTS = ROOT / ".harness" / "third_party"
DEADLINE_S = 900.0
NOT_RUN = "not run"


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
    imports = []
    for _ in range(repeat):
        imports.append(import_alone(file, deadline_s))
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
        _import_text(imports),
        str(len(found)),
    ), found


def _import_text(imports: Sequence[Played | None]) -> str:
    """The medians of what the imports took; "-" where one failed."""
    ended = [each for each in imports if each is not None]
    if len(ended) < len(imports):
        return "-"
    wall_s = statistics.median(each.wall_s for each in ended)
    return f"{wall_s:.1f} s, {statistics.median(each.cpu_s for each in ended):.1f}"


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
    print(as_rst(Table(("file", "tests", "skipped", *WAYS, "CPU", "import", "differ"), tuple(rows))))
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
