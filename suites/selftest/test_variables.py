"""Tests that the list of the environment variables is whole, and says what they really are by default."""

from __future__ import annotations

import unittest

from harness.settings import EnvVar
from harness.variables import VARIABLES, VERDICT_VARIABLES

# What users do not set.
INTERNAL = {
    *(EnvVar.WORKER, EnvVar.TEST_TIMEOUT, EnvVar.STORE, EnvVar.NO_SHARED_FILE, EnvVar.HOST_ADDR),
    *(EnvVar.EXECUTED, EnvVar.RUNNING_TEST),
}


class VariablesTest(unittest.TestCase):
    """``VARIABLES``, which ``--help`` and the pages show."""

    def test_every_name_but_the_internal_ones_is_documented(self) -> None:
        """It has each name of ``EnvVar`` once, and lacks only what users do not set."""
        names = {value for name, value in vars(EnvVar).items() if not name.startswith("_")}
        self.assertEqual(sorted(variable.name for variable in VARIABLES), sorted(names - INTERNAL))

    def test_each_has_values_and_a_meaning(self) -> None:
        """No row is empty, and each fits into one paragraph of ``--help``."""
        for variable in VARIABLES:
            with self.subTest(variable.name):
                self.assertTrue(variable.values)
                self.assertTrue(variable.meaning)
                self.assertNotIn("\n", variable.values + variable.meaning)

    def test_verdict_variables(self) -> None:
        """Each of those that decide verdicts is in the list, once."""
        self.assertLessEqual(set(VERDICT_VARIABLES), {variable.name for variable in VARIABLES})
        self.assertEqual(len(VERDICT_VARIABLES), len(set(VERDICT_VARIABLES)))


if __name__ == "__main__":
    unittest.main()
