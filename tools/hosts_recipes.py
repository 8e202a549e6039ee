"""The lines of docs/hosts.rst that start a run over several hosts, and what a trial makes of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

# In these lines the hosts are these, the file that lists them is the third, and this is what they run.
_FIRST, _SECOND, _FILE, _WHAT = "node1", "node2", "hosts.txt", "c10d"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an engine starts a run. ``text`` is documented; ``everywhere``: it is started on each host."""

    engine: str
    program: str
    text: str
    everywhere: bool = False

    def filled(self, number: int, hosts: Sequence[str], file: str, words: Sequence[str]) -> str:
        """The lines for the shell on host ``number``, for these hosts, a file with their names, and words.

        ``hosts`` is empty where the engine chooses them.
        """
        lines, what = self.text.rsplit(_WHAT, 1)
        assert not what.strip(), what
        names = dict(zip((_FIRST, _SECOND), hosts, strict=False)) | {_FILE: file}
        for name, value in names.items():
            lines = lines.replace(name, value)
        return lines.replace("--node-rank 0", f"--node-rank {number}") + shlex.join(words)


RECIPES = (
    Recipe("slurm", "srun", "srun -N 2 --ntasks-per-node=1 torch-harness --hosts slurm c10d"),
    Recipe(
        "torchrun",
        "torchrun",
        "torchrun --nnodes 2 --node-rank 0 --master-addr node1 --nproc-per-node 1 \\\n"
        "    --no-python torch-harness --hosts torchrun c10d",
        everywhere=True,
    ),
    Recipe(
        "mpi",
        "mpirun",
        "mpirun --host node1,node2 --map-by ppr:1:node --bind-to none -x PATH -x MASTER_ADDR=node1 \\\n"
        "    torch-harness --hosts mpi c10d",
    ),
    Recipe(
        "ssh",
        "ssh",
        "export HARNESS_KEY=$(python -m harness.agent --new-key)\n"
        "for host in $(tail -n +2 hosts.txt); do\n"
        '    ssh $host "cd $PWD && HARNESS_KEY=\\$(cat) exec $(which python) -m harness.agent node1:29700" '
        "<<< $HARNESS_KEY &\n"
        "done\n"
        "torch-harness --hosts 2@node1:29700 c10d",
    ),
)
