"""A run over several hosts: what each process that an engine has started becomes, and the run itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.errors import LaunchError, UsageError
from harness.hosts import key
from harness.hosts.agent_registry import AgentRegistry
from harness.hosts.engines import Role, role_of, without_engine
from harness.hosts.hosts import Host, to_text
from harness.hosts.versions import versions
from harness.runner import run_directory
from harness.settings import EnvVar

# Seconds for all agents to come: an engine may start them one after another, and each imports torch first.
ARRIVAL_S = 120.0
# Seconds for this host's own agent to end when the run is over.
_END_S = 5.0
# The command of an agent, and the directory from which the library is imported.
_AGENT = (sys.executable, "-m", "harness.agent")
_LIBRARY = str(Path(__file__).resolve().parents[2])


def over_hosts(hosts: str, run: Callable[[], int]) -> int:
    """Runs ``run`` with ``HARNESS_HOSTS`` set once all hosts are there, and returns its exit code.

    In a process that is no controller it becomes the agent, and never returns. UsageError and LaunchError
    where that is impossible.
    """
    role = role_of(hosts, os.environ)
    key_file = _key_file(role)
    if role.number:
        words = [f"{role.address}:{role.port}", "--wait", f"{ARRIVAL_S:g}"]
        _become_agent([*words, *(["--key-file", key_file] if key_file else [])])
    with _key(key_file) as (secret, files), _with_agents(role, hosts, secret, files):
        return run()


def _key_file(role: Role) -> str:
    """The file in which the controller leaves the key for processes that an engine has started; "" for none.

    It is in the state directory, which hosts with a shared working directory share.
    """
    if not role.job:
        return ""
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in role.job)
    return str(run_directory.state(os.environ, Path.cwd()).path / "keys" / name)


def _become_agent(words: list[str]) -> None:
    os.execve(sys.executable, [*_AGENT, *words], _environment())


def _environment() -> dict[str, str]:
    """This process's variables, by which a new interpreter finds the library where it is not installed."""
    found = dict(os.environ)
    if sysconfig.get_path("purelib") != _LIBRARY:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (found.get("PYTHONPATH"), _LIBRARY)))
    return found


@contextlib.contextmanager
def _key(shared: str) -> Iterator[tuple[bytes, list[str]]]:
    """The run's key, and files of mode 0600 with it, removed at the end; the first is for own processes.

    Where none is given, a new one is made in the ``shared`` file, where other processes look for it.
    """
    given = key.given(os.environ)
    if given is None and not shared:
        raise UsageError(
            f"no key: set {EnvVar.KEY} here and where the agents are started, "
            f"such as export {EnvVar.KEY}=$(python -m harness.agent --new-key)"
        )
    with tempfile.TemporaryDirectory(prefix="harness-key-") as directory:
        path = os.path.join(directory, "key")
        secret = key.make_file(path, given.decode() if given is not None else None)
        try:
            if given is None:
                key.make_file(shared, secret.decode())
            yield secret, [path, *([shared] if given is None else [])]
        finally:
            if given is None:
                with contextlib.suppress(OSError):
                    os.remove(shared)


@contextlib.contextmanager
def _with_agents(role: Role, engine: str, secret: bytes, key_files: Sequence[str]) -> Iterator[None]:
    """Within, ``HARNESS_HOSTS`` names the hosts of the run, with this one's agent among them.

    That agent removes the key's files where this process is killed.
    """
    key_file = key_files[0]
    with AgentRegistry(role.address, role.port, secret, versions(Path.cwd()), _say) as registry:
        agent = subprocess.Popen(
            [*_AGENT, f"{_dialled(role.address)}:{registry.port}", "--own", *key_files],
            stdin=subprocess.DEVNULL,
            env={**_environment(), EnvVar.KEY_FILE: key_file, EnvVar.KEY: ""},
        )
        try:
            hosts = registry.wait_for(role.count, ARRIVAL_S, lambda: _still_runs(agent))
            _say(f"{len(hosts)} hosts: {', '.join(f'{host.name} ({host.slots} slots)' for host in hosts)}")
            _set_environment(hosts, engine, key_file)
            yield
        finally:
            registry.close(done=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(_END_S)
            agent.kill()
            agent.wait()


def _set_environment(hosts: Sequence[Host], engine: str, key_file: str) -> None:
    """Gives the processes of tests the hosts and the key's file, and takes from them what is not for them."""
    kept = without_engine(engine, os.environ)
    for name in [name for name in os.environ if name not in kept or name == EnvVar.KEY]:
        del os.environ[name]
    os.environ.update({EnvVar.HOSTS: to_text(hosts), EnvVar.KEY_FILE: key_file})


def _dialled(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _still_runs(agent: subprocess.Popen[bytes]) -> bool:
    if agent.poll() is not None:
        raise LaunchError(f"this host's own agent has ended with exit code {agent.returncode}")
    return True


def _say(text: str) -> None:
    print(f"hosts: {text}", file=sys.stderr, flush=True)
