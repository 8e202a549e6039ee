"""What of a launch is different on each host: variables, the scratch directory, and where ranks can meet."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import LaunchError
from harness.protocol import Launch
from harness.ranks.hosts.relay import TOKEN_FILE
from harness.settings import EnvVar

# Variables that belong to a host and not to the run: where an agent has one, its ranks get the agent's value.
OF_THE_HOST = (
    *("HOSTNAME", "TMPDIR", "SLURMD_NODENAME", "SLURM_NODEID"),
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
)
# Variables that name the network interface by which ranks of several hosts reach each other.
INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
# What ranks must not have: they are no part of the run's machinery.
_OF_THE_RUN = (EnvVar.HOSTS, EnvVar.KEY, EnvVar.KEY_FILE)


def interface_of(address: str) -> str | None:
    """The name of the network interface that has an address; None where none has it."""
    import psutil

    wanted = "127.0.0.1" if address.startswith("127.") else address  # the loopback interface has all of these
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.partition("%")[0] == wanted for each in addresses):
            return str(name)
    return None


def variables(
    parents: Mapping[str, str], agents: Mapping[str, str], address: str, store: str, unshared: str
) -> dict[str, str]:
    """The environment of ranks on this host, of their parent's and this agent's.

    ``address`` is the agent's, ``store`` is "" where all ranks of the launch are on this host. ``unshared``
    says why they cannot meet at a file.
    """
    environ = {name: value for name, value in parents.items() if name not in _OF_THE_RUN}
    environ |= {name: agents[name] for name in OF_THE_HOST if name in agents}
    if not store:
        return environ
    environ |= {EnvVar.STORE: store, EnvVar.HOST_ADDR: address}
    if unshared:
        environ[EnvVar.NO_SHARED_FILE] = unshared
    found = interface_of(address)
    for name in INTERFACES:
        chosen = agents.get(name) or found
        if chosen:
            environ[name] = chosen
    return environ


class Scratch:
    """The parents' scratch directories, which are made on a host that does not share them."""

    def __init__(self) -> None:
        self._made: set[str] = set()

    def why_unshared(self, path: str | None, token: str, hosts: Sequence[str]) -> str:
        """Why ranks of several hosts cannot meet at a file in that directory; "" where they can.

        A directory that is not there is made, so that ranks of this host alone can use it.
        """
        if path is None:
            return "the parent has no directory for temporary files"
        if path not in self._made and not os.path.isdir(path):
            try:
                os.makedirs(path, mode=0o700)
            except OSError as error:
                raise LaunchError(f"{path} cannot be made here: {error.strerror}") from None
            self._made.add(path)
        if path not in self._made and _holds(path, token):
            return ""
        return f"{path} is not shared by the hosts {', '.join(hosts)}: set TMPDIR to a directory that is"

    def made(self, path: str | None) -> bool:
        """Whether the directory was made here, and has to be removed here."""
        return path in self._made


def _holds(path: str, token: str) -> bool:
    try:
        return bool(token) and Path(path, TOKEN_FILE).read_text(encoding="utf-8") == token
    except OSError:
        return False


def on_this_host(
    request: Launch, scratch: Scratch, token: str, address: str, hosts: Sequence[str], store: str
) -> Launch:
    """The request as this host's server gets it; LaunchError where it cannot be met here."""
    unshared = scratch.why_unshared(request.scratch, token, hosts)
    for path, what in ((request.values, "--comm-check=values"), (request.cells, "--report conformance")):
        if path and not os.path.isdir(os.path.dirname(path) or path):
            raise LaunchError(
                f"{what} needs {path} on every host, which {socket.gethostname()} does not have"
            )
    if request.values and unshared:
        raise LaunchError(f"{EnvVar.COMM_CHECK}=values needs a directory that hosts share: {unshared}")
    return replace(
        request,
        environ=variables(request.environ, os.environ, address, store, unshared),
        scratch=request.scratch if scratch.made(request.scratch) else None,
    )
