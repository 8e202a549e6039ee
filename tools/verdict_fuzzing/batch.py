"""``Batch``: cases that one process runs, from the writing of their module to the search for leftovers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.settings import EnvVar
from tools.verdict_fuzzing import leftovers, subject, telling
from tools.verdict_fuzzing.case import FuzzCase
from tools.verdict_fuzzing.leftovers import MARK
from tools.verdict_fuzzing.limits import LONG_S
from tools.verdict_fuzzing.model import dies, hangs, stuck
from tools.verdict_fuzzing.observation import NO_VERDICT, Observation, of_record
from tools.verdict_fuzzing.oracle import expected

ROOT = Path(__file__).resolve().parents[2]
# How many cases share a process, by what runs them: what a start costs, against what is lost with a process.
_SIZES = {"spawn": 6, "external": 15, "run_tests": 30}
SIZE = 25
# Variables that this process may have inherited and that must not decide a case.
_OWN = ("HARNESS_", "FUZZ_", "TORCHELASTIC_")
# Seconds, before patience, to start a process that imports torch, and for it to end.
START_S = 60.0
# Seconds between two looks at what a process has written.
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Batch:
    """Cases of one launcher and one mode, run one after another; ``only`` are the words of ``--only``."""

    cases: tuple[FuzzCase, ...]
    patience: float = 1.0
    only: tuple[str, ...] = ()

    def run(self) -> Iterator[tuple[FuzzCase, Observation]]:
        """Runs the cases; yields each with what came of it. A new process goes on where one was lost."""
        rest = self.cases
        while rest:
            seen = _Process(replace(self, cases=rest)).run()
            yield from ((case, seen[case.seed]) for case in rest if case.seed in seen)
            rest = tuple(case for case in rest if case.seed not in seen)


def batches(cases: Sequence[FuzzCase], patience: float, only: tuple[str, ...]) -> list[Batch]:
    """The cases in batches: by mode, launcher and runner; one that strikes on import is alone."""
    groups: dict[object, list[FuzzCase]] = {}
    for case in cases:
        alone = case.seed if case.moment == "import" else None
        groups.setdefault((case.mode, case.launcher, case.runner, alone), []).append(case)
    made = []
    for group in groups.values():
        size = _SIZES.get(group[0].runner, _SIZES.get(group[0].launcher, SIZE))
        made += [Batch(tuple(group[at : at + size]), patience, only) for at in range(0, len(group), size)]
    return made


class _Process:
    """One process that runs cases, with its module, its temporary directory and its mark."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._mark = uuid.uuid4().hex
        self._by_runner = batch.cases[0].runner == "run_tests"
        self._seen: dict[int, Observation] = {}

    def run(self) -> dict[int, Observation]:
        """What came of the cases by seed, as far as the process got; at least one of them."""
        with tempfile.TemporaryDirectory(prefix="fuzz-verdicts-", ignore_cleanup_errors=True) as directory:
            home = Path(directory)
            for name in ("modules", "temporary", "work", "state"):
                (home / name).mkdir()
            module = home / "modules" / f"fuzz_{self._mark[:12]}.py"
            module.write_text(self._source())
            try:
                with open(home / "printed", "wb") as printed:
                    self._run_in(home, module, printed.fileno())
            finally:
                leftovers.end_all(self._mark)
            if self._by_runner:
                self._take_results(home)
            if not self._seen:
                words = (home / "printed").read_text(errors="replace")[-2000:]
                self._put(self._batch.cases[0], Observation(text=f"the process said nothing\n{words}"))
        return self._seen

    def _source(self) -> str:
        seeds = [case.seed for case in self._batch.cases]
        lines = ["from tools.verdict_fuzzing import subject", ""]
        if self._batch.cases[0].launcher != "spawn":
            lines.insert(0, "import torch.distributed")  # once, and not in every rank
        if self._batch.cases[0].moment == "import":
            lines.append(f"subject.strike_on_import({seeds[0]})")
        return "\n".join([*lines, f"globals().update(subject.classes({seeds}, __name__))", ""])

    def _environment(self, home: Path) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
        launcher = self._batch.cases[0].launcher
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(home / "modules"))),
            "TMPDIR": str(home / "temporary"),
            EnvVar.STATE_DIR: str(home / "state"),
            EnvVar.LAUNCHER: "forkserver" if launcher == "external" else launcher,
            EnvVar.TIMEOUT: f"{LONG_S * self._batch.patience:g}",
            "OMP_NUM_THREADS": "1",
            subject.PATIENCE: f"{self._batch.patience:g}",
            subject.ONLY: ",".join(self._batch.only),
            MARK: self._mark,
        }

    def _command(self, home: Path, module: Path) -> list[str]:
        if self._by_runner:
            arguments = [str(module), "-q", "--jobs=1", f"--report-dir={home / 'report'}"]
            return [sys.executable, str(ROOT / "run_tests.py"), *arguments]
        seeds = [str(case.seed) for case in self._batch.cases]
        return [sys.executable, "-m", "tools.verdict_fuzzing.driver", module.stem, str(home / "told"), *seeds]

    def _run_in(self, home: Path, module: Path, printed: int) -> None:
        process = subprocess.Popen(
            self._command(home, module),
            cwd=home / "work",
            env=self._environment(home),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
        try:
            if self._by_runner:
                self._wait(process)
            else:
                self._watch(process, home / "told")
        finally:
            process.kill()
            process.wait()
        self._look_for_leftovers(home)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Waits for run_tests.py, at most as long as all of its tests may take."""
        wanted = [expected(case, self._batch.patience) for case in self._batch.cases]
        try:
            process.wait(START_S * self._batch.patience + sum(each.latest_s for each in wanted))
        except subprocess.TimeoutExpired:
            return

    def _watch(self, process: subprocess.Popen[bytes], told: Path) -> None:
        """Reads what the driver says until it is done, is gone, or keeps one case for too long."""
        until = time.monotonic() + START_S * self._batch.patience
        running: FuzzCase | None = None
        read = 0
        while True:
            ended = process.poll() is not None
            lines = telling.lines(told.read_text() if told.exists() else "")
            for line in lines[read:]:
                running = self._hear(line)
                limit = expected(running, self._batch.patience).latest_s if running else 0.0
                until = time.monotonic() + START_S * self._batch.patience + 2 * limit
            read = len(lines)
            if ended or time.monotonic() > until:
                if running is not None:
                    how = f"the process ended with {process.returncode}" if ended else "the process hung"
                    self._put(running, Observation(text=how, left=(f"{how} in this case",)))
                return
            time.sleep(LOOK_EVERY_S)

    def _hear(self, line: str) -> FuzzCase | None:
        """Takes one line of the driver's; returns the case that runs now."""
        heard = telling.read(line)
        case = next((case for case in self._batch.cases if case.seed == heard.seed), None)
        if case is None or heard.came is None:
            return case
        self._put(case, heard.came)
        return None

    def _put(self, case: FuzzCase, seen: Observation) -> None:
        self._seen[case.seed] = seen

    def _take_results(self, home: Path) -> None:
        """Reads what the run says of every case, from its ``results.jsonl``."""
        results = home / "report" / "results.jsonl"
        lines = results.read_text().splitlines() if results.exists() else []
        by_name = {value["id"].split(".", 1)[-1]: value for value in map(json.loads, lines) if "id" in value}
        left = [line for seen in self._seen.values() for line in seen.left]
        for case in self._batch.cases:
            self._put(case, _of_records(case, by_name, left))
            left = []

    def _look_for_leftovers(self, home: Path) -> None:
        """Adds a line about processes and files that are there after the end to the last case that ran."""
        last = next((case for case in reversed(self._batch.cases) if case.seed in self._seen), None)
        processes = leftovers.more_than(self._mark, 0, self._batch.patience)
        lines = [f"processes left at the end: {processes}"] if processes else []
        files = [*leftovers.files_below(home / "temporary"), *leftovers.files_below(home / "work")]
        if files and not any(_may_leave_files(case) for case in self._batch.cases):
            lines.append(f"files left at the end: {files[:8]}")
        if lines:
            case = last or self._batch.cases[0]
            seen = self._seen.get(case.seed, Observation())
            self._put(case, replace(seen, left=(*seen.left, *lines)))


def _may_leave_files(case: FuzzCase) -> bool:
    """Whether a process that owns files may be killed from outside: a rank that somebody else started."""
    return case.mode == "external" and bool(dies(case) or hangs(case) or stuck(case))


def _of_records(
    case: FuzzCase, by_name: Mapping[str, Mapping[str, object]], left: Sequence[str]
) -> Observation:
    def told(test: str) -> tuple[str, str, float]:
        value = by_name.get(f"{subject.name_of(case.seed)}.{test}")
        return (NO_VERDICT, "no record", 0.0) if value is None else of_record(value)

    verdict, text, seconds = told(subject.STRUCK)
    before, after = told(subject.BEFORE)[0], told(subject.AFTER)[0]
    return Observation(verdict, text, before, after, left=tuple(left), seconds=seconds)
