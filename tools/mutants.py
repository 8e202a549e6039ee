"""Runs a suite with one planted fault at a time and lists the tests that execute the fault and still pass.

    python tools/mutants.py c10d
    python tools/mutants.py c10d --mutant all_reduce_is_identity -k test_ddp
    python tools/mutants.py c10d --baseline /tmp/c10d --mutant 'barrier*'

A suite's faults are listed in ``suites/<suite>/mutants.py`` (see ``suites/planting.py``). The first run, the
baseline, is without a fault: tests that fail in it are left out afterwards, and it watches which tests would
execute each fault. Then the suite runs once with each fault, planted in every worker and rank; if the fault
can be watched, only with the tests that would execute it. A test is concerned if it executed the fault in
that run, or if it failed in it and would have executed it. A concerned test that passed is a survivor; it is
explained if SURVIVORS in the same file gives a reason. ``--baseline DIR`` keeps the first run in DIR, or
takes it from there. ``--check-selection`` only compares which tests would execute each fault with those that
``run_tests.py --affected-by`` runs for the file that it changes.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import HarnessError, UsageError
from harness.impact import impact_map
from harness.impact.files import roots_of
from harness.impact.impact_map import ImpactMap
from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner import journal
from harness.runner.exit_codes import ExitCode
from harness.runner.selection import affected_tests
from harness.settings import EnvVar
from suites import planting
from suites.planting import EVERY, Faults, Marks, Mutant
from tools import planted_run
from tools.fault_selection import fault_selection
from tools.patched_files import patched_files

# The percentage of concerned tests that must fail.
WANTED_RATE = 95
# The deadline of a test under a fault: at least so many seconds, or a multiple of the slowest test without
# the fault. A hanging test counts like a failing one, and should not take much longer.
TIMEOUT_S, TIMEOUT_RATIO = 10.0, 4.0
# The seconds that peers get to report after the first rank has failed: few, because most tests fail here.
GRACE_S = 0.3

EXIT_CODES = f"""exit codes:
  0  at least {WANTED_RATE} % of the concerned tests failed, and there is a reason for each of the others
  1  too many survivors, or one without a reason, or a fault that no test executes
     --check-selection: a test that executes a fault would not run
  2  a wrong argument, or a suite whose mutants cannot be used
  3  without a fault some tests fail (and no --keep-going), or a run did not come to its end"""


class RunFailed(HarnessError):
    """A run of the tests gave no usable results; the message says where to look."""


@dataclass(frozen=True, slots=True)
class MutantVerdict:
    """The result of one mutant.

    ``concerned`` are the ids of the tests that executed it; ``survivors`` those of them that passed, each
    with its known reason or None; ``stale`` the entries of SURVIVORS that match no survivor.
    """

    mutant: Mutant
    concerned: frozenset[str]
    survivors: Mapping[str, str | None]
    stale: tuple[str, ...] = ()

    @property
    def killed(self) -> int:
        """The number of concerned tests that failed."""
        return len(self.concerned) - len(self.survivors)

    @property
    def unexplained(self) -> tuple[str, ...]:
        """The ids of the survivors without a reason."""
        return tuple(test for test, reason in self.survivors.items() if reason is None)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    try:
        faults = planting.faults_of(options.suite)
        chosen = _chosen(faults, options)
        if options.list:
            for mutant in chosen:
                print(f"{mutant.name}: {mutant.what}")
            return 0
        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-"))
            runs = Runs(
                options, faults, Path(options.baseline or Path(temporary, "baseline")), Path(temporary)
            )
            if options.check_selection is not None:
                return _check_selection(chosen, runs, impact_map.read(options.check_selection))
            return _report([*_verdicts(faults, chosen, runs)])
    except UsageError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    except RunFailed as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="mutants.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("suite", metavar="SUITE", help="a package below suites that has mutants.py (c10d)")
    add("--mutant", metavar="NAME", action="append", default=[],
        help="only this one, or those that match a shell pattern; repeatable")  # fmt: skip
    add("-k", dest="keywords", metavar="PATTERN", action="append", default=[],
        help="only tests whose id contains PATTERN; repeatable")  # fmt: skip
    add("--list", action="store_true", help="print the mutants and run nothing")
    add("--slow", action="store_true", help="the exhaustive sweeps too")
    add("-j", "--jobs", metavar="N", default="auto", help="as run_tests.py's")
    add("--timeout", metavar="SECONDS", type=float,
        help="deadline of a test under a fault (default: four times the slowest without one, at least "
        f"{TIMEOUT_S:g})")  # fmt: skip
    add("--baseline", metavar="DIR", help="keep the run without a fault in DIR, or take it from there")
    add("--check-selection", metavar="MAP", nargs="?", type=Path, const=affected_tests.of_suites(),
        help="compare the tests that would execute each fault with what MAP selects for its file "
        "(default: the map of the suites), and plant nothing")  # fmt: skip
    add("--keep-going", action="store_true", help="leave out tests that fail without a fault, and go on")
    return parser


def _chosen(faults: Faults, options: argparse.Namespace) -> list[Mutant]:
    patterns = options.mutant or [EVERY]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in faults.mutants):
            known = ", ".join(faults.mutants)
            raise UsageError(f"{options.suite} has no mutant {pattern!r}; it has {known}")
    return [m for name, m in faults.mutants.items() if any(fnmatchcase(name, p) for p in patterns)]


# -- running


class Runs:
    """Runs the tests of a suite by ``run_tests.py`` in separate processes, with or without a fault."""

    def __init__(self, options: argparse.Namespace, faults: Faults, baseline: Path, directory: Path) -> None:
        self._options = options
        self._faults = faults
        self._baseline = baseline
        self._directory = directory
        self._seconds: dict[str, float] = {}
        self.whole = not options.keywords

    def baseline(self) -> tuple[frozenset[str], Marks]:
        """Runs the suite without a fault, or reads such a run from the baseline's directory.

        Returns the ids of the tests that pass, and the marks that say which tests would execute each mutant.
        """
        marks = Marks(self._baseline / "marks")
        if not (self._baseline / journal.NAME).exists():
            self._run(EVERY, self._baseline, [f"-k={keyword}" for keyword in self._options.keywords], {})
        records = [record for record in _records(self._baseline) if self._is_named(record.id)]
        bad = [record.id for record in records if not record.ok]
        if bad and not self._options.keep_going:
            raise RunFailed(
                f"{len(bad)} tests fail without a fault, {bad[0]} first; "
                "--keep-going leaves them out (and --baseline DIR keeps the run's files)"
            )
        passed = [record for record in records if record.status is Status.PASSED]
        if not passed:
            raise RunFailed("no test passes without a fault")
        self._seconds = {record.id: record.duration_s for record in passed}
        return frozenset(record.id for record in passed), marks

    def _is_named(self, test: str) -> bool:
        """Whether ``-k`` selects a test; a baseline from an earlier run may have more tests."""
        keywords = self._options.keywords
        return not keywords or any(fnmatchcase(test, k) if "*" in k else k in test for k in keywords)

    def mutated(self, mutant: Mutant, tests: frozenset[str]) -> tuple[list[TestRecord], set[str]]:
        """Runs ``tests`` with a fault; returns their records and the ids of the tests that executed it."""
        directory = self._directory / mutant.name
        slowest = max(self._seconds[test] for test in tests)
        seconds = self._options.timeout or max(TIMEOUT_S, TIMEOUT_RATIO * slowest)
        arguments = [*(f"-k={test}" for test in sorted(tests)), f"--timeout={seconds:g}"]
        self._run(mutant.name, directory, arguments, {EnvVar.GRACE: f"{GRACE_S:g}"})
        return _records(directory), Marks(directory / "marks").of(mutant.name)

    def _run(
        self, mutant: str, directory: Path, arguments: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        marks = directory / "marks"
        marks.mkdir(parents=True, exist_ok=True)
        planted = {planting.MUTANT: f"{self._options.suite}:{mutant}", planting.MARKS: str(marks)}
        planted[EnvVar.RUNNING_TEST] = ""
        slow = ["--slow"] if self._options.slow else []
        tests = [*self._faults.tests, *arguments, *slow, f"--jobs={self._options.jobs}"]
        done = planted_run.run(tests, directory, self._directory / "state", {**environ, **planted})
        if done.code not in (ExitCode.OK, ExitCode.FAILED):
            raise RunFailed(f"the run with {mutant!r} ended with exit code {done.code}: {done.words}")


def _records(directory: Path) -> list[TestRecord]:
    """The results of a run, one for each test; raises RunFailed if the run did not end regularly."""
    contents = journal.read(directory)
    if contents.ended not in (ExitCode.OK, ExitCode.FAILED):
        raise RunFailed(f"the run in {directory} did not come to its end; remove the directory")
    return list(contents.records)


# -- selecting


def _check_selection(chosen: Sequence[Mutant], runs: Runs, impact: ImpactMap) -> int:
    if not impact.tests:
        raise UsageError("--check-selection: there is no map")
    passing, watched = runs.baseline()
    roots = roots_of(planted_run.ROOT, planted_run.ROOT)
    found = []
    for mutant in chosen:
        names = [name for path in patched_files(mutant) if (name := roots.name(path)) is not None]
        found.append(fault_selection(mutant.name, names, impact, passing, watched.of(mutant.name)))
        print(found[-1].text, flush=True)
    python = [each for each in found if each.files]
    missed = sum(len(each.missed) for each in found)
    print(f"{len(found)} mutants, {len(python)} of them in Python; {missed} times a test would not run")
    return 1 if missed else 0


# -- judging


def _verdicts(faults: Faults, chosen: Sequence[Mutant], runs: Runs) -> Iterator[MutantVerdict]:
    passing, watched = runs.baseline()
    print(f"{len(passing)} tests pass without a fault", flush=True)
    for mutant in chosen:
        seen = watched.of(mutant.name)
        tests = passing if mutant.watch is None else passing & seen
        verdict = MutantVerdict(mutant, frozenset(), {})
        if tests:
            records, marked = runs.mutated(mutant, tests)
            reasons = faults.survivors.get(mutant.name, {})
            verdict = judge(mutant, passing, records, marked, seen, reasons, whole=runs.whole)
        _print(verdict)
        yield verdict


def judge(
    mutant: Mutant,
    passing: frozenset[str],
    records: Sequence[TestRecord],
    marked: set[str],
    watched: set[str],
    reasons: Mapping[str, str],
    *,
    whole: bool,
) -> MutantVerdict:
    """Judges the records of a run with a fault.

    ``marked`` are the tests that executed the fault, ``watched`` those that would have executed it in the
    baseline, ``reasons`` the reasons for expected survivors, by test id or shell pattern. An entry of
    ``reasons`` for a test that did not run is stale only if the ``whole`` suite was to run.
    """
    ran = {record.id: record for record in records if record.id in passing}
    # A test that the fault kills at once cannot mark that it executed it.
    killed = {test for test, record in ran.items() if record.status is not Status.PASSED}
    concerned = frozenset(ran) & (marked | (watched & killed))
    survivors = {
        test: next((why for pattern, why in reasons.items() if matches(test, pattern)), None)
        for test in sorted(concerned)
        if test not in killed
    }
    stale = tuple(
        pattern
        for pattern in reasons
        if not any(matches(test, pattern) for test in survivors)
        and (whole or any(matches(test, pattern) for test in ran))
    )
    return MutantVerdict(mutant, concerned, survivors, stale)


def matches(test: str, pattern: str) -> bool:
    """Whether an entry of SURVIVORS, a test id or a shell pattern, matches a test."""
    return test == pattern or fnmatchcase(test, pattern)


# -- saying


def _print(verdict: MutantVerdict) -> None:
    mutant, total = verdict.mutant, len(verdict.concerned)
    print(f"{mutant.name} ({mutant.what}): {_score(verdict.killed, total)}", flush=True)
    for test in verdict.unexplained:
        print(f"    survives: {test}")
    explained = len(verdict.survivors) - len(verdict.unexplained)
    if explained:
        print(f"    and {explained} for known reasons")
    for pattern in verdict.stale:
        print(f"    SURVIVORS has {pattern!r}, and nothing like it survives")
    if not total:
        print("    no test executes it")


def _report(verdicts: Sequence[MutantVerdict]) -> int:
    concerned = sum(len(verdict.concerned) for verdict in verdicts)
    killed = sum(verdict.killed for verdict in verdicts)
    unexplained = sum(len(verdict.unexplained) for verdict in verdicts)
    unseen = [verdict.mutant.name for verdict in verdicts if not verdict.concerned]
    print(f"{len(verdicts)} mutants: {_score(killed, concerned)}, {unexplained} survivors without a reason")
    good = not unexplained and not unseen and 100 * killed >= WANTED_RATE * concerned
    return 0 if good else 1


def _score(killed: int, concerned: int) -> str:
    rate = f" ({100 * killed / concerned:.1f} %)" if concerned else ""
    return f"{killed} of {concerned} concerned tests fail{rate}"


if __name__ == "__main__":
    sys.exit(main())
