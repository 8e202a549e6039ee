"""Tests what each process of a run over hosts is, by the variables of the engine that has started it."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.hosts.engines import Role, role_of, without_engine

SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "2",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "tn[1-2]",
}
TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "3",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "tn1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "x",
}
MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "tn1", "MASTER_PORT": "29700"}


class EnginesTest(unittest.TestCase):
    """What ``role_of`` makes of variables."""

    def test_engines(self) -> None:
        """Number, count and the controller's address come from the engine."""
        for text, environ, number, count in (
            ("slurm", SLURM, 1, 2),
            ("torchrun", TORCHRUN, 0, 3),
            ("mpi", MPI, 1, 2),
        ):
            with self.subTest(text):
                role = role_of(text, environ)
                self.assertEqual((role.number, role.count, role.address), (number, count, "tn1"))
                self.assertIn(text, role.job)

    def test_by_hand(self) -> None:
        """``N@HOST:PORT`` is the controller of a run whose agents know no job."""
        self.assertEqual(role_of("2@node1:29700", {}), Role(0, 2, "node1", 29700, ""))

    def test_port(self) -> None:
        """All processes of a job find one port; MASTER_PORT names another, but not under torchrun."""
        other = {**SLURM, "SLURM_PROCID": "0"}
        port = role_of("slurm", SLURM).port
        self.assertEqual(role_of("slurm", other).port, port)
        self.assertTrue(15000 <= port < 30000)
        self.assertNotEqual(role_of("slurm", {**SLURM, "SLURM_STEP_ID": "1"}).port, port)
        self.assertEqual(role_of("slurm", {**SLURM, "MASTER_PORT": "5000"}).port, 5000)
        self.assertEqual(role_of("mpi", MPI).port, 29700)
        self.assertNotEqual(role_of("torchrun", TORCHRUN).port, 29500)

    def test_refused(self) -> None:
        """What is missing or wrong is named, with what to write."""
        for text, environ, says in (
            ("slurm", {}, "srun --ntasks-per-node=1"),
            ("slurm", {**SLURM, "SLURM_STEP_NODELIST": ""}, "start this by srun"),
            ("torchrun", {}, "torchrun --nproc-per-node 1"),
            ("torchrun", {**TORCHRUN, "LOCAL_WORLD_SIZE": "2"}, "one process a host"),
            ("torchrun", {**TORCHRUN, "MASTER_ADDR": ""}, "MASTER_ADDR"),
            ("mpi", {**MPI, "MASTER_ADDR": ""}, "-x MASTER_ADDR"),
            ("pbs", {}, "N@HOST:PORT"),
            ("0@node1:5", {}, "N@HOST:PORT"),
            ("2@node1", {}, "HOST:PORT"),
        ):
            with self.subTest(text, says=says), self.assertRaisesRegex(UsageError, says):
                role_of(text, environ)

    def test_without_engine(self) -> None:
        """Tests do not take torchrun's variables for their own; those of a job stay."""
        own = {"GROUP_WORLD_SIZE": "3", "TORCHELASTIC_USE_AGENT_STORE": "True", "ROLE_NAME": "default"}
        self.assertEqual(without_engine("torchrun", {**TORCHRUN, **own, "HOME": "/"}), {"HOME": "/"})
        self.assertEqual(without_engine("slurm", {**SLURM, "RANK": "0"}), {**SLURM, "RANK": "0"})


if __name__ == "__main__":
    unittest.main()
