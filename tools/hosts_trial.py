"""Tries runs over two hosts with every engine that is here, beside the same run on one host.

    python tools/hosts_trial.py [--engine NAME...] [--tests NAME...]

The hosts of torchrun, mpirun and ssh are network namespaces, each with an sshd; those of Slurm are its own.
Each is started by the lines of docs/hosts.rst. Of each run it prints how many tests have the verdict they
have on one host, with every rank's, and which have not; how many had ranks on two hosts; what it left.
Exit code 1 where a verdict differs or something is left; an engine that is not here is named.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import UsageError
from harness.record import TestRecord
from harness.runner import journal
from harness.settings import EnvVar
from tools.hosts_recipes import RECIPES, Recipe
from tools.namespaces import Namespaces
from tools.simple_table import Table, as_rst
from tools.ssh_servers import SshServers

_TREE = Path(__file__).resolve().parents[1]
# The rows of faulty tests: every way in which ranks end, fail, hang and differ.
_FAULTS = tuple(
    f"suites.selftest.faults.{name}"
    for name in ("verdicts", "ends", "exceptions", "hangs", "leftovers", "collectives", "hosts")
)
_TESTS = (
    *_FAULTS,
    *(
        f"c10d.test_{name}"
        for name in ("stores", "rendezvous", "process_groups", "python_backends", "point_to_point")
    ),
    "spmd.test_dtensor_redistribute",
)
# Of a test that skips on one host.
_HOSTS_MISSED = re.compile(r"needs \d+ hosts, found")
# The deadline and the grace of tests in seconds: those of hangs reach them.
_VARIABLES = {EnvVar.TIMEOUT: "20", EnvVar.GRACE: "1"}
# mpirun refuses to be run by root, as which alone there are namespaces.
_VARIABLES |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_COMMAND = "torch-harness"
# Seconds for a run, and for what it has started to end after it.
_RUN_S, _END_S = 1800.0, 10.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What was seen of one run: its records by test, seconds, and command lines that it left running."""

    name: str
    records: dict[str, TestRecord]
    seconds: float
    left: tuple[str, ...] = ()
    output: str = ""


def verdict(record: TestRecord) -> str:
    """What has to be equal however many hosts there are: the status of the test and of each rank."""
    ranks = ", ".join(f"{rank.rank} {rank.status.value} {rank.exit_code}" for rank in record.ranks)
    return f"{record.status.value} ({ranks})" if ranks else record.status.value


def differing(one: Trial, other: Trial) -> list[str]:
    """A line for each test whose verdict is not that of the first trial, where that had the hosts for it."""
    lines = []
    for name in sorted(one.records.keys() | other.records.keys()):
        here, there = (t.records.get(name) for t in (one, other))
        if here is not None and _HOSTS_MISSED.search(here.reason):
            continue
        said = tuple("absent" if each is None else verdict(each) for each in (here, there))
        if said[0] != said[1]:
            lines.append(f"{other.name}: {name}: {said[1]}; {one.name}: {said[0]}")
    return lines


def over_two(trial: Trial) -> int:
    """How many tests had ranks on two hosts or more."""
    return sum(len({rank.host for rank in record.ranks}) > 1 for record in trial.records.values())


def table(one: Trial, others: Sequence[Trial]) -> Table:
    """A row for each trial."""
    rows = []
    for trial in (one, *others):
        equal = sum(
            verdict(r) == verdict(one.records[n]) for n, r in trial.records.items() if n in one.records
        )
        numbers = (len(trial.records), equal, over_two(trial), len(trial.left))
        rows.append((trial.name, *(str(number) for number in numbers), f"{trial.seconds:.0f} s"))
    return Table(
        ("run", "tests", "verdict as on one host", "ranks on two hosts", "left running", "time"), tuple(rows)
    )


class Trials:
    """Runs ``tests`` in every way. ``hosts`` are the namespaces, ``path`` is the PATH of what is started."""

    def __init__(self, hosts: Namespaces, path: str, folder: Path, tests: Sequence[str]) -> None:
        self._hosts = hosts
        self._folder = folder
        self._tests = tests
        self._environ = {**os.environ, **_VARIABLES, "PATH": path}
        self._file = folder / "hosts.txt"
        self._file.write_text("".join(f"{address}\n" for address in hosts.addresses))

    def on_one_host(self) -> Trial:
        """The run without other hosts."""
        words = [sys.executable, "run_tests.py", *self._words("one host")]
        return self._trial("one host", [words])

    def over(self, recipe: Recipe) -> Trial:
        """The run over two hosts."""
        words = [*self._words(recipe.engine), "--placement", "spread"]
        if recipe.engine == "slurm":
            return self._trial(recipe.engine, [_shell(recipe.filled(0, (), "", words))])
        numbers = range(len(self._hosts.addresses)) if recipe.everywhere else (0,)
        filled = [recipe.filled(n, self._hosts.addresses, str(self._file), words) for n in numbers]
        commands = [self._hosts.command(n, _shell(text)) for n, text in zip(numbers, filled, strict=True)]
        return self._trial(recipe.engine, commands)

    def _words(self, name: str) -> list[str]:
        return ["--report-dir", str(self._folder / name), "-q", *self._tests]

    def _trial(self, name: str, commands: Sequence[Sequence[str]]) -> Trial:
        before = self._processes()
        began = time.monotonic()
        with (
            open(self._folder / f"{name}.txt", "w", encoding="utf-8") as said,
            contextlib.ExitStack() as undo,
        ):
            for command in commands:
                process = subprocess.Popen(
                    command, cwd=_TREE, env=self._environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said
                )
                undo.callback(process.wait, _RUN_S)
        seconds = time.monotonic() - began
        left = self._left(before)
        output = (self._folder / f"{name}.txt").read_text()
        return Trial(name, _records(self._folder / name), seconds, left, output)

    def _processes(self) -> dict[int, str]:
        return {pid: text for n in range(2) for pid, text in self._hosts.processes(n).items()}

    def _left(self, before: dict[int, str]) -> tuple[str, ...]:
        """The command lines of what still runs on the namespaces and did not before, after a while."""
        until = time.monotonic() + _END_S
        while (
            left := {p: t for p, t in self._processes().items() if p not in before}
        ) and time.monotonic() < until:
            time.sleep(0.1)
        return tuple(left.values())


def _records(folder: Path) -> dict[str, TestRecord]:
    with contextlib.suppress(UsageError):  # the run never began
        return {record.id: record for record in journal.read(folder).records}
    return {}


def _shell(text: str) -> list[str]:
    return ["bash", "-c", text]


def _missing(recipe: Recipe, path: str) -> str:
    """Why an engine cannot be tried here; "" where it can."""
    if shutil.which(recipe.program, path=path) is None:
        return f"{recipe.program} is not installed"
    if recipe.engine == "slurm" and subprocess.run(["sinfo", "-h"], capture_output=True).returncode:
        return "no Slurm controller answers"
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 0, 1 where something differs or is left, 2 for usage."""
    options = _parser().parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="hosts-trial-") as folder:
            return _try(options, Path(options.keep or folder))
    except UsageError as error:
        print(f"hosts_trial: {error}", file=sys.stderr)
        return 2


def _try(options: argparse.Namespace, folder: Path) -> int:
    own = os.path.dirname(sys.executable)
    if shutil.which(_COMMAND, path=os.pathsep.join((own, os.environ["PATH"]))) is None:
        raise UsageError(f"engines start {_COMMAND}, which is not installed: pip install -e {_TREE}")
    folder.mkdir(parents=True, exist_ok=True)
    with Namespaces(2) as hosts, SshServers(hosts) as servers:
        path = os.pathsep.join((str(servers.folder), own, os.environ["PATH"]))
        trials = Trials(hosts, path, folder, options.tests)
        one = trials.on_one_host()
        others = []
        for recipe in RECIPES:
            if recipe.engine not in options.engine:
                continue
            if missing := _missing(recipe, path):
                print(f"{recipe.engine}: not tried: {missing}", flush=True)
            else:
                others.append(trials.over(recipe))
                print(report(one, others[-1]), flush=True)
    print(as_rst(table(one, others)))
    return int(any(differing(one, other) or other.left for other in others))


def report(one: Trial, other: Trial) -> str:
    """What is to be said of a run beside the one on one host: each difference, and what it has left."""
    lines = differing(one, other) if other.records else [f"{other.name}: no test ran:\n{other.output}"]
    lines += [f"{other.name}: left running: {words}" for words in other.left]
    return "\n".join(lines) or f"{other.name}: as on one host"


def _parser() -> argparse.ArgumentParser:
    engines = [recipe.engine for recipe in RECIPES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--engine", nargs="+", choices=engines, default=engines, help="the engines to try (default: all)")
    add(
        "--tests", nargs="+", default=list(_TESTS), metavar="NAME", help="what runs, as run_tests.py takes it"
    )
    add("--keep", metavar="DIR", help="keeps reports and outputs there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
