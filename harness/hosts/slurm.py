"""Where the processes of a Slurm step meet: its first host, and a port that follows from its number."""

from __future__ import annotations

import re
from collections.abc import Mapping

# The ports of Slurm steps: below those that systems give to outgoing connections. One job may have some
# steps.
_FIRST_PORT, _PORTS, _STEPS = 15000, 15000, 16


def step_address(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """The first host of the step that srun has started, where rank 0 runs, and a port by the step's number.

    None where no srun has started this process. Steps of one job have different ports.
    """
    host = first_host(environ.get("SLURM_STEP_NODELIST", ""))
    numbers = [environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    if host is None or not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    job, step = map(int, numbers)
    return host, _FIRST_PORT + (job * _STEPS + step) % _PORTS


def first_host(nodes: str) -> str | None:
    """The first host of a list as Slurm writes it.

    ``tn[03-07,09]`` is tn03 to tn07 and tn09; None for none.
    """
    match = re.match(r"([^\[,]+)(?:\[(\d+)[^\]]*\])?([^,]*)", nodes)
    return "".join(part or "" for part in match.groups()) if match else None
