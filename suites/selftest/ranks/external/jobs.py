"""``Job``: processes that are started as torchrun starts its ranks, for tests of the rank mode "external"."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch.distributed import TCPStore

from suites.selftest import warm_python
from suites.selftest.ranks.external.bodies import new_store

ROOT = str(Path(__file__).resolve().parents[4])
BODIES = "suites.selftest.ranks.external.bodies"
# Seconds. A job that has not ended by then is not going to end; none should take a tenth of it.
LONG_S = 600.0
# Seconds for the peers of a rank that failed to report: they are done, or wait for it on a busy machine.
GRACES = {"HARNESS_GRACE": "2", "HARNESS_SKIP_GRACE": "2"}
# Variables of torchrun that this process may have inherited and that its ranks must not see.
INHERITED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")


class Job:
    """Processes as ranks 0 and up, each with its list of tests.

    They call ``main`` of ``module`` with the file for their results and their list. The job owns the
    processes, their files and, unless ``hosted`` is False, the store; otherwise rank 0 hosts the store.
    """

    def __init__(
        self,
        *names: Sequence[str],
        size: int | None = None,
        hosted: bool = True,
        module: str = BODIES,
        **environ: str,
    ) -> None:
        self._program = f"import sys; from {module} import main; main(*sys.argv[1:])"
        self.directory = tempfile.mkdtemp(prefix="harness-selftest-")
        self.store: TCPStore | None = new_store()
        variables = {
            **{name: value for name, value in os.environ.items() if name not in INHERITED},
            "HARNESS_LAUNCHER": "external",
            "HARNESS_TIMEOUT": "300",
            **GRACES,
            "HARNESS_STRICT": "0",
            "HARNESS_RANKS": "",
            "OMP_NUM_THREADS": "1",
            "TMPDIR": self.directory,  # for what a rank that dies leaves behind
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.store.port),
            "WORLD_SIZE": str(size or len(names)),
            **environ,
        }
        if hosted:
            variables["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        else:
            self.store = None  # its port is free again, and nobody else has a reason to take it
        self.ranks = [self._start(rank, own, variables) for rank, own in enumerate(names)]
        self.codes: list[int] = []
        self.printed: list[str] = []

    def _start(
        self, rank: int, names: Sequence[str], variables: dict[str, str]
    ) -> warm_python.Started | subprocess.Popen[str]:
        return warm_python.start(
            ["-c", self._program, self._results(rank), *names],
            env={**variables, "RANK": str(rank)},
            cwd=Path(ROOT),
        )

    def _results(self, rank: int) -> str:
        return os.path.join(self.directory, f"{rank}.json")

    def wait(self) -> None:
        """Waits until all processes have ended."""
        if not self.codes:
            self.printed = [rank.communicate(timeout=LONG_S)[0] for rank in self.ranks]
            self.codes = [rank.returncode for rank in self.ranks]

    def verdicts(self, rank: int) -> dict[str, tuple[str, str]]:
        """Returns a rank's (verdict, text) by test."""
        self.wait()
        with contextlib.suppress(FileNotFoundError):
            return {n: (v, t) for n, (v, t) in json.loads(Path(self._results(rank)).read_text()).items()}
        return {}

    def close(self) -> None:
        """Ends the processes that still run and removes the files."""
        for rank in self.ranks:
            rank.kill()
            with rank:
                pass
        shutil.rmtree(self.directory)
        self.store = None
