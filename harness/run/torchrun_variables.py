"""Decides which environment variables a rank gets: torchrun's, with the values of one group on one machine.

Source: "Environment Variables" of torch.distributed.run's documentation, and what its agent sets besides.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.settings import EnvVar

MASTER_ADDR = "127.0.0.1"


def variables(
    rank: int, world_size: int, *, port: int, run_id: str, threads: int, environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a rank, by name; those of ``environ`` that the user decides keep their values.

    ``TORCHELASTIC_USE_AGENT_STORE`` is False: rank 0 makes the store on the port, as there is no agent that
    does. ``threads`` is the rank's share of the processors; torchrun gives one processor to each rank.
    """
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "ROLE_RANK": str(rank),
        "GROUP_RANK": "0",
        EnvVar.WORLD_SIZE: str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "ROLE_WORLD_SIZE": str(world_size),
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": MASTER_ADDR,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS", str(threads)),
    }


# Those that are the harness's to decide, for --help.
NAMES = tuple(variables(0, 1, port=0, run_id="", threads=1, environ={}))[:-1]
