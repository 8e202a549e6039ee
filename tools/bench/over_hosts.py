"""Measures what a test costs on more and more ranks: fresh on one or more hosts, threads, local tensors.

    python tools/bench/over_hosts.py [--hosts 1 2 4] [--kept threads local] [--ranks 2 4 8] [--rounds 9]

The hosts are network namespaces of this machine, so all ranks share its processors: what is measured is the
price of the way over agents and sockets. A test makes a group, all-reduces once and checks the sum. All
ways are measured in turns. The output has medians: seconds, with their ratios to the first way; the seconds
of processors that all processes of this tool together took; the memory (PSS) that they together have more
while the ranks stand behind the sum; the descriptors that the process with the most has open then. Fresh
ranks are measured up to 256, and sizes above 32 once.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness import DTensorTestBase, MultiThreadedTestCase, with_comms
from harness.cases.local_ranks import map_local_for_rank
from harness.hosts import key
from harness.hosts.agent_registry import AgentRegistry
from harness.hosts.hosts import Host, to_text
from harness.hosts.versions import versions
from harness.settings import EnvVar
from tools.bench.bodies import ROOT, SPOT, WORLD_SIZE
from tools.namespaces import Namespaces
from tools.simple_table import Table, as_rst

_TREE = Path(__file__).resolve().parents[2]
# Seconds for all agents to come.
_ARRIVAL_S = 120.0
# Deadline of a test, in seconds.
_PATIENCE_S = 600
# Fresh ranks are measured up to the first; of more ranks than the second there is one value and no first try.
_MOST_FRESH, _MOST_REPEATED = 256, 32
_MODES = {"threads": "threads", "local": "local tensors"}


@dataclass(frozen=True, slots=True)
class Sample:
    """What one test cost: see the module."""

    seconds: float
    processor_s: float
    megabytes: float
    descriptors: int


_Series = Mapping[tuple[str, int], Sequence[Sample]]


class _Measured:
    """The test that is measured. The number of ranks is the one that is measured now."""

    rank: Any

    @property
    def world_size(self) -> int:
        """The same in the parent and in ranks."""
        return int(os.environ[WORLD_SIZE])

    def all_reduce(self) -> None:
        """Adds up the ranks and checks the sum; then all stand still while one looks."""
        mine = map_local_for_rank(self.rank, lambda rank: torch.full((4,), float(rank + 1)))
        dist.all_reduce(mine)
        assert mine[0].item() == self.world_size * (self.world_size + 1) / 2, mine
        began, began_here = time.monotonic(), time.process_time()
        dist.barrier()
        looks = os.environ[EnvVar.RANKS] == "local" or self.rank == 0
        megabytes, descriptors = _used() if looks else (0.0, 0)
        dist.barrier()
        if looks:
            spent = (time.monotonic() - began, time.process_time() - began_here)
            Path(os.environ[SPOT]).write_text(json.dumps([*spent, megabytes, descriptors]))


class OnRanks(_Measured, DTensorTestBase):
    """On processes, or on local tensors in one."""

    @property
    def backend(self) -> str:
        """The backend of processes."""
        return "gloo"

    @with_comms
    def test_all_reduce(self) -> None:
        """Makes a group for it."""
        self.all_reduce()


class OnThreads(_Measured, MultiThreadedTestCase):
    """On threads, with torch's group for them: gloo would take as many sockets as there are pairs."""

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def test_all_reduce(self) -> None:
        """Finds a group made."""
        self.all_reduce()


def _processes() -> list[psutil.Process]:
    """All processes of this tool."""
    top = psutil.Process(int(os.environ[ROOT]))
    return [top, *top.children(recursive=True)]


def _processor_s() -> float:
    """Seconds of processors that they, and children of theirs that have ended, have taken."""
    spent_s = 0.0
    for process in _processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            spent_s += sum(process.cpu_times()[:4])
    return spent_s


def _used() -> tuple[float, int]:
    """Their memory in megabytes, and the descriptors of that which has the most."""
    megabytes, descriptors = 0.0, 0
    for process in _processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            megabytes += process.memory_full_info().pss / 1e6
            descriptors = max(descriptors, process.num_fds())
    return megabytes, descriptors


def answer() -> None:
    """Runs the test once for each world size that comes on standard input, and prints a sample of each."""
    case = OnThreads if os.environ[EnvVar.RANKS] == "threads" else OnRanks
    for line in sys.stdin:
        os.environ[WORLD_SIZE] = line.strip()
        result = unittest.TestResult()
        before, _ = _used()
        spent_before_s, began = _processor_s(), time.monotonic()
        case("test_all_reduce").run(result)
        seconds = time.monotonic() - began
        for _, text in (*result.errors, *result.failures):
            sys.exit(text)
        processor_s = _processor_s() - spent_before_s
        looked_s, looked_here_s, megabytes, descriptors = json.loads(Path(os.environ[SPOT]).read_text())
        sample = Sample(seconds - looked_s, processor_s - looked_here_s, megabytes - before, descriptors)
        print(json.dumps(dataclasses.astuple(sample)), flush=True)


def measured(runners: Mapping[str, subprocess.Popen[str]], ranks: Sequence[int], rounds: int) -> _Series:
    """The samples by way and ranks: one of each cell in each round, after one that does not count."""
    series: dict[tuple[str, int], list[Sample]] = {}
    for size in ranks:
        once = size > _MOST_REPEATED
        for turn in range(1 if once else rounds + 1):
            for way, runner in runners.items():
                if "host" in way and size > _MOST_FRESH:
                    continue
                sample = _ask(runner, size)
                if turn or once:
                    series.setdefault((way, size), []).append(sample)
    return series


def _ask(runner: subprocess.Popen[str], size: int) -> Sample:
    assert runner.stdin is not None and runner.stdout is not None
    print(size, file=runner.stdin, flush=True)
    return Sample(*json.loads(runner.stdout.readline() or sys.exit("the measured process has ended")))


def table(series: _Series) -> Table:
    """A row for each number of ranks: the medians of each way, of seconds with the ratio to the first way."""
    ways = list(dict.fromkeys(way for way, _ in series))
    rows = []
    for size in sorted({size for _, size in series}):
        cells = [_cell(series.get((way, size), ()), series.get((ways[0], size), ())) for way in ways]
        rows.append((str(size), *cells))
    return Table(("ranks", *ways), tuple(rows))


def _cell(samples: Sequence[Sample], first: Sequence[Sample]) -> str:
    if not samples:
        return r"\-"
    seconds, processor_s, megabytes, descriptors = (
        statistics.median(getattr(sample, name) for sample in samples) for name in Sample.__slots__
    )
    told = f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"
    if first:
        told += f" ({seconds / statistics.median(sample.seconds for sample in first):.2f})"
    return f"{told}, {processor_s:.2f} s, {megabytes:.0f} MB, {descriptors:.0f}"


@contextlib.contextmanager
def _agents(namespaces: Namespaces, key_file: str) -> Iterator[tuple[Host, ...]]:
    """The hosts, with an agent on each."""
    secret = key.make_file(key_file)
    with (
        contextlib.ExitStack() as undo,
        AgentRegistry(namespaces.machine, 0, secret, versions(_TREE), print) as registry,
    ):
        for number in range(len(namespaces.addresses)):
            where = f"{namespaces.machine}:{registry.port}"
            words = [sys.executable, "-m", "harness.agent", where, "--name", f"h{number}"]
            agent = subprocess.Popen(
                namespaces.command(number, words), cwd=_TREE, env={**os.environ, EnvVar.KEY_FILE: key_file}
            )
            undo.callback(agent.wait)
            undo.callback(agent.kill)
        registry.wait_for(len(namespaces.addresses), _ARRIVAL_S)
        yield tuple(sorted(registry.hosts, key=lambda host: host.name))


@contextlib.contextmanager
def _runner(
    namespaces: Namespaces, hosts: Sequence[Host], folder: str, mode: str = "fresh"
) -> Iterator[subprocess.Popen[str]]:
    """A process on the first host that measures tests over these, without agents where it is alone."""
    # A namespace resolves no names, also not its own, by which gloo would find its interface.
    environ = {**os.environ, EnvVar.PLACEMENT: "spread", "GLOO_SOCKET_IFNAME": "lo", EnvVar.RANKS: mode}
    environ |= {ROOT: str(os.getpid()), SPOT: os.path.join(folder, f"{mode}-{len(hosts)}")}
    environ[EnvVar.TIMEOUT] = str(_PATIENCE_S)
    if len(hosts) > 1:
        environ |= {EnvVar.HOSTS: to_text(hosts), EnvVar.KEY_FILE: os.path.join(folder, "key")}
    words = [sys.executable, "-c", "from tools.bench.over_hosts import answer; answer()"]
    with subprocess.Popen(
        namespaces.command(0, words),
        cwd=_TREE,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as runner:
        yield runner


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(argv)
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="bench-hosts-"))
        namespaces = undo.enter_context(Namespaces(max(options.hosts)))
        hosts = undo.enter_context(_agents(namespaces, os.path.join(folder, "key")))
        runners = {
            f"{count} host{'s' * (count > 1)}": undo.enter_context(_runner(namespaces, hosts[:count], folder))
            for count in options.hosts
        }
        for mode in options.kept:
            runners[_MODES[mode]] = undo.enter_context(_runner(namespaces, hosts[:1], folder, mode))
        print(as_rst(table(measured(runners, options.ranks, options.rounds))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--hosts", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    add("--kept", nargs="*", choices=list(_MODES), default=[], help="ranks in one process, beside fresh ones")
    add("--ranks", type=int, nargs="+", default=[2, 4, 8], metavar="N")
    add("--rounds", type=int, default=9, metavar="N", help="values of each cell (default: 9)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
