"""``Loopback``: hosts of a run that are this machine, each with an agent at an address of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.hosts import key
from harness.hosts.agent_registry import AgentRegistry
from harness.hosts.hosts import to_text
from harness.hosts.versions import versions
from harness.ranks.hosts.launcher import own_launcher
from harness.settings import EnvVar

TREE = Path(__file__).resolve().parents[3]
# Seconds for agents to import torch and to come, and for them to end. Only a broken self-test waits as long.
ARRIVAL_S = 300.0


def start_agent(port: int, number: int, key_file: str, within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Starts the agent of host ``h<number>``, with two slots, which comes to a controller at a port.

    ``within`` is a command that runs the agent's own, which follows it.
    """
    where = [f"127.0.0.1:{port}", "--name", f"h{number}", "--address", f"127.0.0.{10 + number}"]
    return subprocess.Popen(
        [*within, sys.executable, "-m", "harness.agent", *where, "--slots", "2", "--wait", str(ARRIVAL_S)],
        cwd=TREE,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, EnvVar.KEY_FILE: key_file, EnvVar.KEY: ""},
    )


class Loopback:
    """A run over ``count`` hosts without a controller's tests; a context manager.

    ``within`` has commands within which the agents of some hosts are started, by number.
    ``environ`` are the variables by which tests of this process, or of one that it starts, use the hosts.
    """

    def __init__(self, count: int = 2, within: Mapping[int, Sequence[str]] | None = None) -> None:
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            directory = undo.enter_context(tempfile.TemporaryDirectory(prefix="loopback-", dir="/tmp"))
            path = os.path.join(directory, "key")
            self.said: list[str] = []
            self.key = key.make_file(path)
            self.registry = AgentRegistry("127.0.0.1", 0, self.key, versions(TREE), self.said.append)
            undo.callback(self.registry.close, done=True)
            self.agents = [
                start_agent(self.registry.port, n, path, (within or {}).get(n, ())) for n in range(count)
            ]
            for agent in self.agents:
                undo.callback(_end, agent)
            self.hosts = self.registry.wait_for(count, ARRIVAL_S)
            self.environ = {EnvVar.HOSTS: to_text(self.hosts), EnvVar.KEY_FILE: path}
            undo.callback(own_launcher().close)
            self._undo = undo.pop_all()

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends this process's relay and the agents."""
        self._undo.close()


def _end(agent: subprocess.Popen[bytes]) -> None:
    """Ends an agent that has not ended by itself."""
    agent.kill()
    agent.wait()
    assert agent.stderr is not None
    agent.stderr.close()
