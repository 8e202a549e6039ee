"""Who starts the processes of a run on its hosts, and what each is: the controller, or an agent.

``--hosts slurm``, ``torchrun`` and ``mpi`` read it from the variables of that engine; ``--hosts N@HOST:PORT``
is the controller of a run whose agents are started in any other way.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError
from harness.hosts import slurm
from harness.hosts.addresses import LARGEST_PORT, address_and_port
from harness.settings import EnvVar

# What torchrun tells its processes. Tests would take it for their own rank, world size and store.
_OF_TORCHRUN = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_ADDR|MASTER_PORT|TORCHELASTIC_.*"
)
ENGINES = ("slurm", "torchrun", "mpi")
# Where an engine names no port, one of these, which its processes find by the name of their job.
_FIRST_PORT, _PORTS = 20000, 12000


@dataclass(frozen=True, slots=True)
class Role:
    """This process's part in a run over ``count`` hosts: number 0 is the controller, with an agent beside it.

    The controller listens at ``address`` and ``port``. ``job`` is a name that all processes of the run know;
    "" where they know none.
    """

    number: int
    count: int
    address: str
    port: int
    job: str


def role_of(text: str, environ: Mapping[str, str]) -> Role:
    """This process's part by the value of ``--hosts``; UsageError where that or a variable is missing."""
    if text in ENGINES:
        return {"slurm": _slurm, "torchrun": _torchrun, "mpi": _mpi}[text](environ)
    count, at, where = text.partition("@")
    if not (at and count.isascii() and count.isdigit() and int(count)):
        raise UsageError(f"--hosts {text}: write {', '.join(ENGINES)}, or N@HOST:PORT, such as 2@node1:29700")
    address, port = address_and_port(where)
    return Role(0, int(count), address, port, "")


def _slurm(environ: Mapping[str, str]) -> Role:
    number, count = _rank(environ, "SLURM_PROCID", "SLURM_NTASKS", "srun --ntasks-per-node=1")
    job = f"slurm-{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
    step = slurm.step_address(environ)
    if step is None:
        raise UsageError(
            "--hosts slurm: start this by srun, which sets SLURM_STEP_NODELIST and SLURM_STEP_ID"
        )
    address = environ.get("MASTER_ADDR") or step[0]
    return Role(number, count, address, _given_port(environ) or step[1], job)


def _torchrun(environ: Mapping[str, str]) -> Role:
    number, count = _rank(environ, "RANK", EnvVar.WORLD_SIZE, "torchrun --nproc-per-node 1 --no-python")
    if environ.get("LOCAL_WORLD_SIZE", "1") != "1":
        raise UsageError("--hosts torchrun: one process a host: torchrun --nproc-per-node 1")
    # torchrun's own store listens on its MASTER_PORT.
    master = f"{environ.get('MASTER_ADDR')}-{environ.get('MASTER_PORT')}"
    job = f"torchrun-{environ.get('TORCHELASTIC_RUN_ID', '')}-{master}"
    if not environ.get("MASTER_ADDR"):
        raise UsageError("--hosts torchrun: no MASTER_ADDR, which torchrun sets")
    return Role(number, count, environ["MASTER_ADDR"], _port({}, job), job)


def _mpi(environ: Mapping[str, str]) -> Role:
    how = "mpirun --map-by ppr:1:node -x MASTER_ADDR=HOST"
    number, count = _rank(environ, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", how)
    if not environ.get("MASTER_ADDR"):
        raise UsageError(f"--hosts mpi: no MASTER_ADDR: name the first host to all: {how}")
    job = f"mpi-{environ.get('PMIX_NAMESPACE', '')}-{environ['MASTER_ADDR']}"
    return Role(number, count, environ["MASTER_ADDR"], _port(environ, job), job)


def _rank(environ: Mapping[str, str], rank: str, size: str, how: str) -> tuple[int, int]:
    values = [environ.get(name, "") for name in (rank, size)]
    if not all(value.isascii() and value.isdigit() for value in values):
        raise UsageError(f"{rank} and {size} are not set: start this by {how}")
    return int(values[0]), int(values[1])


def _port(environ: Mapping[str, str], job: str) -> int:
    """``MASTER_PORT``, else one that follows from the job's name."""
    return _given_port(environ) or _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS


def _given_port(environ: Mapping[str, str]) -> int | None:
    text = environ.get("MASTER_PORT", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) <= LARGEST_PORT else None


def without_engine(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables without those by which the engine of ``--hosts`` tells a process its part in the run."""
    if text != "torchrun":
        return dict(environ)
    return {name: value for name, value in environ.items() if not _OF_TORCHRUN.fullmatch(name)}
