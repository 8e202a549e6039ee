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
from harness.hosts.addresses import LARGEST_PORT, address_and_port
from harness.settings import EnvVar

ENGINES = ("slurm", "torchrun", "mpi")
# Where an engine names no port, one of these, which its processes find by the name of their job.
_FIRST_PORT, _PORTS = 20000, 12000


@dataclass(frozen=True, slots=True)
class Start:
    """This process's part in a run over ``count`` hosts: number 0 is the controller, with an agent beside it.

    The controller listens at ``address`` and ``port``. ``job`` is a name that all processes of the run know;
    "" where they know none.
    """

    number: int
    count: int
    address: str
    port: int
    job: str


def start_of(text: str, environ: Mapping[str, str]) -> Start:
    """This process's part by the value of ``--hosts``; UsageError where that or a variable is missing."""
    if text in ENGINES:
        return {"slurm": _slurm, "torchrun": _torchrun, "mpi": _mpi}[text](environ)
    count, at, where = text.partition("@")
    if not (at and count.isascii() and count.isdigit() and int(count)):
        raise UsageError(f"--hosts {text}: write {', '.join(ENGINES)}, or N@HOST:PORT, such as 2@node1:29700")
    address, port = address_and_port(where)
    return Start(0, int(count), address, port, "")


def _slurm(environ: Mapping[str, str]) -> Start:
    number, count = _rank(environ, "SLURM_PROCID", "SLURM_NTASKS", "srun --ntasks-per-node=1")
    job = f"slurm-{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    address = environ.get("MASTER_ADDR") or first_node(nodes)
    if not address:
        raise UsageError("--hosts slurm: no SLURM_STEP_NODELIST, and no MASTER_ADDR in its place")
    return Start(number, count, address, _port(environ, job), job)


def _torchrun(environ: Mapping[str, str]) -> Start:
    number, count = _rank(environ, "RANK", EnvVar.WORLD_SIZE, "torchrun --nproc-per-node 1 --no-python")
    if environ.get("LOCAL_WORLD_SIZE", "1") != "1":
        raise UsageError("--hosts torchrun: one process a host: torchrun --nproc-per-node 1")
    # torchrun's own store listens on its MASTER_PORT.
    master = f"{environ.get('MASTER_ADDR')}-{environ.get('MASTER_PORT')}"
    job = f"torchrun-{environ.get('TORCHELASTIC_RUN_ID', '')}-{master}"
    if not environ.get("MASTER_ADDR"):
        raise UsageError("--hosts torchrun: no MASTER_ADDR, which torchrun sets")
    return Start(number, count, environ["MASTER_ADDR"], _port({}, job), job)


def _mpi(environ: Mapping[str, str]) -> Start:
    how = "mpirun --map-by ppr:1:node -x MASTER_ADDR=HOST"
    number, count = _rank(environ, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", how)
    if not environ.get("MASTER_ADDR"):
        raise UsageError(f"--hosts mpi: no MASTER_ADDR: name the first host to all: {how}")
    job = f"mpi-{environ.get('PMIX_NAMESPACE', '')}-{environ['MASTER_ADDR']}"
    return Start(number, count, environ["MASTER_ADDR"], _port(environ, job), job)


def _rank(environ: Mapping[str, str], rank: str, size: str, how: str) -> tuple[int, int]:
    values = [environ.get(name, "") for name in (rank, size)]
    if not all(value.isascii() and value.isdigit() for value in values):
        raise UsageError(f"{rank} and {size} are not set: start this by {how}")
    return int(values[0]), int(values[1])


def _port(environ: Mapping[str, str], job: str) -> int:
    """``MASTER_PORT``, else one that follows from the job's name."""
    text = environ.get("MASTER_PORT", "")
    if text.isascii() and text.isdigit() and 0 < int(text) <= LARGEST_PORT:
        return int(text)
    return _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS


def first_node(nodes: str) -> str:
    """The first host of Slurm's list of nodes, such as ``tn[01-03,07],x1``; "" where there is none."""
    found = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\])?([^,\[]*)", nodes)
    return "".join(part or "" for part in found.groups()) if found else ""
