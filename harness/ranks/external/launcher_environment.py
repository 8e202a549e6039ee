"""Reads rank, world size and store address from the variables that torchrun, mpirun and Slurm set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError
from harness.hosts import slurm
from harness.hosts.addresses import LARGEST_PORT
from harness.settings import EnvVar

# The pairs of variables for rank and world size; the first pair whose rank is set counts. torchrun's come
# first and mpirun's second, since both may run under srun, and a batch script has Slurm's variables even
# where srun did not start it.
SOURCES = (
    ("RANK", EnvVar.WORLD_SIZE),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


@dataclass(frozen=True, slots=True)
class LauncherEnvironment:
    """The rank of this process, the world size, and the address of the store that the ranks share.

    ``agent_store`` is True where torchrun's agent hosts the store, else rank 0 hosts it. ``restart_count``
    distinguishes processes that torchrun has restarted from those before them.
    """

    rank: int
    world_size: int
    master_addr: str
    master_port: int
    agent_store: bool = False
    restart_count: str = "0"

    @property
    def address(self) -> str:
        """The store's host and port, for messages."""
        return f"{self.master_addr}:{self.master_port}"


def launcher_environment(environ: Mapping[str, str]) -> LauncherEnvironment:
    """The values of the launcher's variables; UsageError where one is missing or contradicts another."""
    source = next((names for names in SOURCES if environ.get(names[0])), None)
    if source is None:
        raise UsageError(
            f"{EnvVar.LAUNCHER}=external without a rank: start the test file on each rank by torchrun, srun "
            f"or mpirun, or set RANK and WORLD_SIZE (looked for {', '.join(rank for rank, _ in SOURCES)})"
        )
    rank, size = (_whole(environ, name) for name in source)
    if not rank < size:
        raise UsageError(f"{source[0]}={rank} contradicts {source[1]}={size}: ranks count from 0")
    if environ.get(EnvVar.WORLD_SIZE) and _whole(environ, EnvVar.WORLD_SIZE) != size:
        raise UsageError(
            f"{EnvVar.WORLD_SIZE}={environ[EnvVar.WORLD_SIZE]} contradicts {source[1]}={size}: "
            "unset it, or set RANK too"
        )
    host, port = _address(environ)
    agent_store = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    restarts = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return LauncherEnvironment(rank, size, host, port, agent_store, restarts)


def _address(environ: Mapping[str, str]) -> tuple[str, int]:
    """The store's host and port: the variables', else those that follow from a Slurm step."""
    host = environ.get("MASTER_ADDR", "")
    if not host and not environ.get("MASTER_PORT"):
        step = slurm.step_address(environ)
        if step is not None:
            return step
    if not host:
        raise UsageError(
            f"{EnvVar.LAUNCHER}=external needs MASTER_ADDR and MASTER_PORT: rank 0's host and a free "
            "port of it"
        )
    port = _whole(environ, "MASTER_PORT")
    if not 0 < port <= LARGEST_PORT:
        raise UsageError(f"MASTER_PORT={port}: write a port from 1 to {LARGEST_PORT}")
    return host, port


def _whole(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{name}={text!r}: {EnvVar.LAUNCHER}=external needs a whole number there, 0 or more")
    return int(text)
