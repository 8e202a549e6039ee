"""Tests where the processes of a Slurm step meet."""

from __future__ import annotations

import unittest

from harness.hosts.slurm import first_host, step_address


class SlurmTest(unittest.TestCase):
    """``first_host`` and ``step_address``."""

    def test_first_host(self) -> None:
        """The first host of a list in Slurm's form."""
        for nodes, host in (
            ("tn1", "tn1"),
            ("tn[1-2]", "tn1"),
            ("tn[08,10-12],x3", "tn08"),
            ("a,b", "a"),
            ("rack[2-3]n", "rack2n"),
            ("", None),
        ):
            with self.subTest(nodes):
                self.assertEqual(first_host(nodes), host)

    def test_step_address(self) -> None:
        """All processes of a step find its first host and one port; another step has another port."""
        step = {"SLURM_STEP_NODELIST": "tn[1-2]", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
        host, port = step_address(step) or ("", 0)
        self.assertEqual(host, "tn1")
        self.assertEqual(step_address({**step, "SLURM_STEP_ID": "1"}), ("tn1", port + 1))
        for missing in step:
            with self.subTest(missing):
                self.assertIsNone(step_address({**step, missing: ""}))


if __name__ == "__main__":
    unittest.main()
