"""Tests that ranks get every variable which torchrun documents, and which values they have."""

from __future__ import annotations

import re
import unittest
from collections.abc import Mapping

import torch.distributed.run

from harness.run.torchrun_variables import NAMES, variables


def of_rank(rank: int = 2, environ: Mapping[str, str] = {}) -> dict[str, str]:
    """Returns the variables of a rank of four."""
    return variables(rank, 4, port=29511, run_id="abc", threads=3, environ=environ)


class VariablesTest(unittest.TestCase):
    """The variables of one rank."""

    def test_all_that_are_documented(self) -> None:
        """torch's own list; ``PYTHON_EXEC`` is one that the user sets."""
        documented = re.findall(r"(?m)^\d+\. ``([A-Z_]+)``", torch.distributed.run.__doc__ or "")
        self.assertGreater(len(documented), 10)
        self.assertLessEqual(set(documented) - {"PYTHON_EXEC"}, set(NAMES))

    def test_values(self) -> None:
        """Ranks differ by their numbers, in one group on one machine."""
        values = of_rank()
        for names, value in (
            (("RANK", "LOCAL_RANK", "ROLE_RANK"), "2"),
            (("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"), "4"),
            (("GROUP_RANK", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"), "0"),
            (("MASTER_ADDR",), "127.0.0.1"),
            (("MASTER_PORT",), "29511"),
            (("TORCHELASTIC_RUN_ID",), "abc"),
            (("OMP_NUM_THREADS",), "3"),
        ):
            for name in names:
                with self.subTest(name):
                    self.assertEqual(values[name], value)
        differing = {name for name in values if values[name] != of_rank(1)[name]}
        self.assertEqual(differing, {"RANK", "LOCAL_RANK", "ROLE_RANK"})

    def test_what_the_user_decides(self) -> None:
        """The number of threads and how NCCL's errors are handled; ranks and the port never."""
        kept = {"OMP_NUM_THREADS": "7", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}
        values = of_rank(environ={**kept, "RANK": "9", "MASTER_PORT": "1", "WORLD_SIZE": "9"})
        self.assertLessEqual(kept.items(), values.items())
        self.assertEqual((values["RANK"], values["MASTER_PORT"], values["WORLD_SIZE"]), ("2", "29511", "4"))


if __name__ == "__main__":
    unittest.main()
