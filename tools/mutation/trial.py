"""Tries one mutant: runs the tests that execute its line until one fails, tables and the quickest first.

They run in forks of a process that has imported torch (``forks.py``); a mutant that cannot be planted there
gets a run of its own, in processes that import it.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import HarnessError
from harness.outcomes import Status
from harness.runner import journal
from harness.runner.exit_codes import ExitCode
from harness.settings import EnvVar
from tools import planted_run
from tools.mutation import modules, planting
from tools.mutation.attempts import Mutant, Outcome, Ran
from tools.mutation.forks import Forks
from tools.mutation.line_map import LineMap
from tools.mutation.results import Result, Verdict
from tools.mutation.sites import Site
from tools.mutation.tables import tables_first

# The tests of the first run of a mutant: most mutants fail one of a few quick tests, and a run of all that
# execute an often used line is long. In forks, which start at once, each next run has so many times more.
FIRST, GROWTH = 25, 4
# The deadline of a test under a mutant: at least so many seconds, or a multiple of the slowest test without
# one. A test that hangs is one that fails, and should not take much longer.
TIMEOUT_S, TIMEOUT_RATIO = 10.0, 4.0
# A test that fails by its deadline gets so many times that, alone, before it counts: load makes tests late.
LATE_RATIO = 3.0
# What the words of such a failure have: of the harness, and of the warm process.
LATE = ("timed out", "not at its end")
# The seconds that peers get to report after the first rank has failed: few, because a failure is expected.
ENVIRON = {EnvVar.GRACE: "0.3"}
# The seconds for a run to start: torch is imported in them.
START_S = 120.0


class TrialFailed(HarnessError):
    """A run under a mutant gave no result; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Trials:
    """What all trials share: the map of lines, the runs' directory, the workers, the most tests but tables.

    ``forks`` is None if every mutant is to get a run of its own. ``catches`` has the number of
    mutants that each test has caught there. ``unknown`` are tests of the map that runs do not find any more.
    """

    line_map: LineMap
    directory: Path
    jobs: str
    most: int | None
    forks: Forks | None = None
    catches: Counter[str] = field(default_factory=Counter)
    unknown: set[str] = field(default_factory=set)

    def of(self, site: Site) -> Result:
        """Tries the mutant."""
        tests = self.line_map.executing(site.file, site.line)
        if not tests:
            return Result(site.name, Verdict.NOT_EXECUTED)
        chosen = tables_first(self._known(tests), self.most)
        result = self._in_forks(self.forks, site, chosen) if self.forks else None
        if result is None:
            result = self._in_runs(site, chosen)
        if result.verdict is not Verdict.SURVIVED:
            return result
        return replace(result, left_out=len(tests) - len(result.tests))

    def _in_forks(self, forks: Forks, site: Site, chosen: Sequence[str]) -> Result | None:
        """The result of runs in forks; None where it cannot be so, or no test passes there."""
        mutant = Mutant(site.name, str(modules.root() / site.file))
        passed: list[str] = []
        for batch in _batches(chosen):
            timeout_s = self._timeout_s(batch)
            order = sorted((t for t in batch if not forks.given_up(t)), key=self._rank)
            while order:
                outcome = forks.attempt(mutant, order, timeout_s)
                if outcome.why_not:
                    return None
                failed = _failed(forks, mutant, outcome, timeout_s)
                blamed = _blamed(failed.test, order) if failed else []
                # Only now is it looked for without the mutant: most tests need it for no mutant.
                if failed and (not blamed or forks.passing(blamed, timeout_s)):
                    self.catches[failed.test] += 1
                    return Result(site.name, Verdict.CAUGHT, (failed.test,), words=failed.words)
                ran = {r.test for r in outcome.ran}
                passed += [test for test in order if test in ran and test not in blamed]
                order = [test for test in order if test not in ran and test not in blamed]
        return Result(site.name, Verdict.SURVIVED, tuple(passed)) if passed else None

    def _rank(self, test: str) -> float:
        return self.line_map.tests[test] / (1 + self.catches[test])

    def _in_runs(self, site: Site, chosen: Sequence[str]) -> Result:
        """The result of runs of the mutant's own."""
        for batch in (chosen[:FIRST], chosen[FIRST:]):
            if batch and (result := self._run(site, batch)) is not None:
                return result
        ran = self._known(chosen)
        return Result(site.name, Verdict.SURVIVED if ran else Verdict.NOT_EXECUTED, ran)

    def _known(self, tests: Sequence[str]) -> tuple[str, ...]:
        return tuple(test for test in tests if test not in self.unknown)

    def _timeout_s(self, tests: Sequence[str]) -> float:
        return max(TIMEOUT_S, TIMEOUT_RATIO * max(self.line_map.tests[test] for test in tests))

    def _run(self, site: Site, tests: Sequence[str]) -> Result | None:
        """The result of a run of these tests if the mutant was noticed in it, else None."""
        while known := self._known(tests):
            directory = Path(tempfile.mkdtemp(prefix="run-", dir=self.directory))
            done = self._done(site, known, directory)
            gone = next((test for test in known if repr(test) in done.words), None)
            if done.code != ExitCode.USAGE or gone is None:
                return self._judged(site, directory, done)
            self.unknown.add(gone)
            print(f"mutate: {gone} is in the map and is no test any more: left out", file=sys.stderr)
        return None

    def _done(self, site: Site, tests: Sequence[str], directory: Path) -> planted_run.Done:
        seconds = [self.line_map.tests[test] for test in tests]
        timeout_s = self._timeout_s(tests)
        return planted_run.run(
            [*tests, "--failfast", f"--timeout={timeout_s:g}", f"--jobs={self.jobs}"],
            directory,
            self.directory / "state",
            {**planting.environ_for_mutant(site.name), **ENVIRON},
            seconds=START_S + TIMEOUT_RATIO * sum(seconds) + 2 * timeout_s,
        )

    def _judged(self, site: Site, directory: Path, done: planted_run.Done) -> Result | None:
        if done.code == ExitCode.OK:
            return None
        if done.code is None:
            return Result(site.name, Verdict.CAUGHT, (), words=f"the run was {done.words}")
        return _noticed(site, directory, done)


def _failed(forks: Forks, mutant: Mutant, outcome: Outcome, timeout_s: float) -> Ran | None:
    """The test that failed; None where it was only late, or fails only after other tests."""
    failed = outcome.failed
    if failed is None or (failed is outcome.ran[0] and not any(words in failed.words for words in LATE)):
        return failed
    return forks.attempt(mutant, (failed.test,), LATE_RATIO * timeout_s).failed


def _blamed(failed: str, tests: Sequence[str]) -> list[str]:
    """The test that failed; of a class whose fixture failed, all; none where no test had begun."""
    if failed in tests:
        return [failed]
    return [test for test in tests if test.rpartition(".")[0] in failed]


def _batches(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    start, size = 0, FIRST
    while start < len(tests):
        yield tests[start : start + size]
        start, size = start + size, size * GROWTH


def _noticed(site: Site, directory: Path, done: planted_run.Done) -> Result:
    if done.code in (ExitCode.USAGE, ExitCode.NOTHING_RAN):
        raise TrialFailed(f"the run with {site.name} ended with exit code {done.code}: {done.words}")
    if done.code == ExitCode.BROKEN:  # torch, which the mutant breaks, cannot even be imported
        return Result(site.name, Verdict.CAUGHT, (), words=done.words)
    records = journal.read(directory).records
    bad = [record for record in records if not record.ok and record.status is not Status.ENDED]
    if not bad:
        raise TrialFailed(f"the run with {site.name} ended with exit code {done.code} and no test failed")
    return Result(site.name, Verdict.CAUGHT, (bad[0].id,), words=bad[0].reason)
