"""Measures what a test on fresh ranks costs over several hosts beside the same test on one host.

    python tools/bench/over_hosts.py [--hosts 1 2 4] [--ranks 2 4 8] [--rounds 9]

The hosts are network namespaces of this machine, so all ranks share its processors: what is measured is the
price of the way over agents and sockets. A test makes a gloo group, all-reduces once and checks the sum. All
numbers of hosts are measured in turns. The output has medians in milliseconds, and ratios to one host.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
import torch.distributed as dist

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness import DistributedTestBase
from harness.hosts import key
from harness.hosts.agent_registry import AgentRegistry
from harness.hosts.hosts import Host, to_text
from harness.hosts.versions import versions
from harness.settings import EnvVar
from tools.bench.bodies import WORLD_SIZE
from tools.namespaces import Namespaces
from tools.simple_table import Table, as_rst

_TREE = Path(__file__).resolve().parents[2]
# Seconds for all agents to come.
_ARRIVAL_S = 120.0
_Series = Mapping[tuple[int, int], Sequence[float]]


class OnRanks(DistributedTestBase):
    """The test that is measured."""

    @property
    def world_size(self) -> int:
        """The number of ranks that is measured now, in the parent and in ranks."""
        return int(os.environ[WORLD_SIZE])

    def test_all_reduce(self) -> None:
        """Makes a group, adds up the ranks and checks the sum."""
        self.create_pg("cpu")
        tensor = torch.full((4,), float(self.rank + 1))
        dist.all_reduce(tensor)
        self.assertEqual(tensor[0].item(), self.world_size * (self.world_size + 1) / 2)


def answer() -> None:
    """Runs the test once for each world size that comes on standard input, and prints the seconds of each."""
    for line in sys.stdin:
        os.environ[WORLD_SIZE] = line.strip()
        result = unittest.TestResult()
        began = time.monotonic()
        OnRanks("test_all_reduce").run(result)
        seconds = time.monotonic() - began
        for _, text in (*result.errors, *result.failures):
            sys.exit(text)
        print(seconds, flush=True)


def measured(runners: Mapping[int, subprocess.Popen[str]], ranks: Sequence[int], rounds: int) -> _Series:
    """The seconds by hosts and ranks: one value of each cell in each round, after one that does not count."""
    series: dict[tuple[int, int], list[float]] = {}
    for turn in range(rounds + 1):
        for size in ranks:
            for hosts, runner in runners.items():
                value = _ask(runner, size)
                if turn:
                    series.setdefault((hosts, size), []).append(value)
    return series


def _ask(runner: subprocess.Popen[str], size: int) -> float:
    assert runner.stdin is not None and runner.stdout is not None
    print(size, file=runner.stdin, flush=True)
    return float(runner.stdout.readline() or sys.exit("the measured process has ended"))


def table(series: _Series) -> Table:
    """A row for each number of ranks: the median of each number of hosts, with its ratio to the first."""
    hosts = sorted({hosts for hosts, _ in series})
    rows = []
    for size in sorted({size for _, size in series}):
        medians = [statistics.median(series[count, size]) for count in hosts]
        cells = [f"{1000 * value:.0f} ms ({value / medians[0]:.2f})" for value in medians]
        rows.append((str(size), *cells))
    return Table(("ranks", *(f"{count} host{'s' * (count > 1)}" for count in hosts)), tuple(rows))


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
def _runner(namespaces: Namespaces, hosts: Sequence[Host], key_file: str) -> Iterator[subprocess.Popen[str]]:
    """A process on the first host that measures tests over these, without agents where it is alone."""
    # A namespace resolves no names, also not its own, by which gloo would find its interface.
    environ = {**os.environ, EnvVar.PLACEMENT: "spread", "GLOO_SOCKET_IFNAME": "lo"}
    if len(hosts) > 1:
        environ |= {EnvVar.HOSTS: to_text(hosts), EnvVar.KEY_FILE: key_file}
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
            count: undo.enter_context(_runner(namespaces, hosts[:count], os.path.join(folder, "key")))
            for count in options.hosts
        }
        print(as_rst(table(measured(runners, options.ranks, options.rounds))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--hosts", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    add("--ranks", type=int, nargs="+", default=[2, 4, 8], metavar="N")
    add("--rounds", type=int, default=9, metavar="N", help="values of each cell (default: 9)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
