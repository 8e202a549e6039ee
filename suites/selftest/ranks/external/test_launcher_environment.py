"""Tests which rank a process is by the environment variables of its launcher."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.ranks.external.launcher_environment import (
    LauncherEnvironment,
    launcher_environment,
)
from harness.runner.command_line.invocation import resolve
from harness.runner.command_line.options import parse

HOST = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}


class PlaceTest(unittest.TestCase):
    """The rank, the world size and the store's address from the launcher's variables."""

    def test_sources(self) -> None:
        """Torchrun's variables come first, since it may run below srun; then mpirun's, then Slurm's."""
        slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
        mpi = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}
        torchrun = {"RANK": "5", "WORLD_SIZE": "8"}
        table = (
            (slurm, (1, 2)),
            ({**slurm, **mpi}, (2, 3)),
            ({**slurm, **mpi, **torchrun}, (5, 8)),
            ({**slurm, "WORLD_SIZE": "2"}, (1, 2)),
        )
        for environ, (rank, size) in table:
            with self.subTest(environ=environ):
                self.assertEqual(
                    launcher_environment({**HOST, **environ}), LauncherEnvironment(rank, size, "node1", 29500)
                )

    def test_agent(self) -> None:
        """Torchrun's own store and its restart count are recognised."""
        elastic = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "2"}
        found = launcher_environment({**HOST, "RANK": "0", "WORLD_SIZE": "1", **elastic})
        self.assertEqual(
            found, LauncherEnvironment(0, 1, "node1", 29500, agent_store=True, restart_count="2")
        )

    def test_slurm_step(self) -> None:
        """A step that srun has started needs no address: it is on its first host, at a port of its own."""
        rank = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
        step = {**rank, "SLURM_STEP_NODELIST": "tn[03-05,9]", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
        ports = set()
        for job, number in (("7", "0"), ("7", "1"), ("8", "0"), ("123456789", "3")):
            found = launcher_environment({**step, "SLURM_JOB_ID": job, "SLURM_STEP_ID": number})
            self.assertEqual(found.master_addr, "tn03")
            self.assertTrue(1024 < found.master_port < 32768, found)
            ports.add(found.master_port)
        self.assertEqual(len(ports), 4)
        self.assertEqual(launcher_environment({**step, **HOST}).address, "node1:29500")
        for missing in ("SLURM_STEP_NODELIST", "SLURM_STEP_ID"):  # a batch script, which srun did not start
            with self.subTest(missing), self.assertRaisesRegex(UsageError, "MASTER_ADDR"):
                launcher_environment({**step, missing: ""})

    def test_nonsense(self) -> None:
        """Missing or contradictory variables are an error of one line that names the variable."""
        one = {"RANK": "0", "WORLD_SIZE": "2"}
        table = (
            (HOST, "RANK"),
            ({**HOST, "WORLD_SIZE": "2"}, "without a rank"),
            ({**HOST, "RANK": "0"}, "WORLD_SIZE=''"),
            ({**HOST, "RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 contradicts WORLD_SIZE=2"),
            ({**HOST, "RANK": "-1", "WORLD_SIZE": "2"}, "RANK='-1'"),
            (
                {**HOST, "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "WORLD_SIZE": "4"},
                "WORLD_SIZE=4 contradicts SLURM_NTASKS=2",
            ),
            ({**one, "MASTER_PORT": "1"}, "MASTER_ADDR"),
            ({**one, "MASTER_ADDR": "node1"}, "MASTER_PORT=''"),
            ({**one, **HOST, "MASTER_PORT": "70000"}, "MASTER_PORT=70000"),
        )
        for environ, wanted in table:
            with self.subTest(wanted), self.assertRaises(UsageError) as caught:
                launcher_environment(environ)
            self.assertIn(wanted, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_not_for_the_runner(self) -> None:
        """run_tests.py refuses the external launcher, because it starts processes of its own."""
        with self.assertRaisesRegex(UsageError, "HARNESS_LAUNCHER=external: .*not run_tests.py"):
            resolve(parse([]), [], {"HARNESS_LAUNCHER": "external"})


if __name__ == "__main__":
    unittest.main()
