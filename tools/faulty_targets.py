"""Tests targets with a planted fault each, and checks that the conformance matrix reddens the right cells.

    python tools/faulty_targets.py
    python tools/faulty_targets.py all_reduce_averages scatter_shifted -k WorldSize2

The faults are those of ``suites/targets/faulty.py``. The c10d suite runs on the right backend first, then on
each faulty one. The cells that its fault concerns must be red then, and all others as they were.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.conformance.document import Conformance, load
from harness.conformance.matrix import Cell, State
from harness.conformance_features import SECTION
from harness.errors import HarnessError, UsageError
from harness.runner.exit_codes import ExitCode
from harness.settings import EnvVar
from suites.targets import faulty, python_gloo
from suites.targets.faulty import Fault

ROOT = Path(__file__).resolve().parents[1]
MODULES = tuple(
    f"suites.c10d.test_{name}"
    for name in ("collectives", "coalesced_collectives", "point_to_point", "barriers")
)
# The seconds that peers get to report after the first rank has failed: few, because many fail here.
GRACE_S = 0.3

EXIT_CODES = """exit codes:
  0  under each fault the right cells are red, and no others
  1  a cell is missed, or red without a reason
  2  a wrong argument
  3  a run did not come to its end, or the right backend fails"""


class RunFailed(HarnessError):
    """A run of the tests gave no usable report; the message says where to look."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the matrix says about a fault.

    ``red`` are the cells that should be red and are, ``missed`` those that should and are not, ``stray``
    those that have changed and should not. ``tests`` are the ids of tests that fail and name no red cell.
    """

    fault: Fault
    red: tuple[Cell, ...]
    missed: tuple[Cell, ...]
    stray: tuple[Cell, ...]
    tests: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether the right cells are red, and no others."""
        return bool(self.red) and not self.missed and not self.stray


def judged(fault: Fault, right: Conformance, found: Conformance) -> Verdict:
    """Compares the report of a faulty target with that of the right one.

    A cell that should be red and was not reached, because its test has failed by then, is neither red nor
    missed; nor is one that need not be red for certain.
    """
    now = {each.key: each for each in found.matrix.cells}
    failed = {each.name for each in found.matrix.tests if each.state.bad}
    red: list[Cell] = []
    missed: list[Cell] = []
    stray: list[Cell] = []
    for cell in _operations(right):
        seen = now.get(cell.key) or replace(cell, state=State.NOT_RUN)
        if not fault.reddens(cell.name, dict(cell.coordinates)):
            if seen.state is not cell.state:
                stray.append(seen)
        elif seen.state.bad:
            red.append(seen)
        elif fault.certain and (cell.key in now or cell.test not in failed):
            missed.append(seen)
    tests = failed - {cell.test for cell in red}
    return Verdict(fault, tuple(red), tuple(missed), tuple(stray), tuple(sorted(tests)))


def _operations(found: Conformance) -> list[Cell]:
    """The cells of operations. Those of features are whole tests, which are counted as such."""
    return [cell for cell in found.matrix.cells if not any(name == SECTION for name, _ in cell.coordinates)]


def text(verdict: Verdict) -> str:
    """The verdict in lines: one with numbers, and one for each cell that is missed or stray."""
    fault = verdict.fault
    lines = [
        f"{fault.name} ({fault.what}): {len(verdict.red)} cells red, {len(verdict.missed)} missed, "
        f"{len(verdict.stray)} stray; {len(verdict.tests)} tests without cells fail too"
    ]
    lines += [f"    missed: {cell}" for cell in verdict.missed]
    lines += [f"    stray: {cell}: {cell.state.value} {cell.said}" for cell in verdict.stray]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    chosen = [fault for fault in faulty.FAULTS if not options.faults or fault.name in options.faults]
    with tempfile.TemporaryDirectory(prefix="faulty-targets-") as temporary:
        try:
            verdicts = list(_verdicts(chosen, options, Path(options.report_dir or temporary)))
        except (RunFailed, UsageError) as error:  # UsageError: the report of a run cannot be read
            print(f"faulty_targets: {error}", file=sys.stderr)
            return 3
    good = sum(verdict.good for verdict in verdicts)
    print(f"{good} of {len(verdicts)} faults redden the right cells and no others")
    return 0 if good == len(verdicts) else 1


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="faulty_targets.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("faults", metavar="FAULT", nargs="*", choices=[*(fault.name for fault in faulty.FAULTS), []],
        help=f"of {', '.join(fault.name for fault in faulty.FAULTS)} (default: all)")  # fmt: skip
    add("-k", dest="keywords", metavar="PATTERN", action="append", default=[],
        help="only tests whose id contains PATTERN; repeatable")  # fmt: skip
    add("--module", dest="modules", metavar="NAME", action="append", default=[],
        help="only this module of tests; repeatable")  # fmt: skip
    add("--report-dir", metavar="DIR", help="keep the reports of all runs below DIR")
    return parser


def _verdicts(chosen: Iterable[Fault], options: argparse.Namespace, directory: Path) -> Iterable[Verdict]:
    right = _run(("--plugin", python_gloo.__name__), options, directory / python_gloo.NAME)
    bad = [cell for cell in (*right.matrix.cells, *right.matrix.tests) if cell.state.bad]
    if bad or not _operations(right):
        raise RunFailed(f"the right backend has no cells, or fails: {bad[:1]}; see --report-dir")
    print(f"{python_gloo.NAME}: {right.line}", flush=True)
    for fault in chosen:
        plug = ("--plugin", faulty.__name__, "--backend", fault.name)
        verdict = judged(fault, right, _run(plug, options, directory / fault.name))
        print(text(verdict), flush=True)
        yield verdict


def _run(plug: Sequence[str], options: argparse.Namespace, directory: Path) -> Conformance:
    command = [sys.executable, str(ROOT / "run_tests.py"), *plug, *(options.modules or MODULES)]
    command += [*(f"-k={each}" for each in options.keywords), "--report", "conformance"]
    done = subprocess.run(
        [*command, f"--report-dir={directory}", "-q"],
        cwd=ROOT,
        # Keeps the user's --last-failed as it is.
        env={**os.environ, EnvVar.GRACE: f"{GRACE_S:g}", EnvVar.STATE_DIR: str(directory / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (ExitCode.OK, ExitCode.FAILED):
        words = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise RunFailed(f"{' '.join(plug)} ended with exit code {done.returncode}: {words[-1]}")
    return load(directory)


if __name__ == "__main__":
    sys.exit(main())
