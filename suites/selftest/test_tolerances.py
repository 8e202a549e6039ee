"""Self-tests of harness.tolerances: the defaults are torch's, by the name of the dtype, without torch."""

from __future__ import annotations

import subprocess
import sys
import unittest

import torch

from harness import tolerances
from harness.tolerances import BY_DTYPE, EXACT, FLOAT32, PYTHON_FLOAT, default_tolerances


class DefaultTolerancesTest(unittest.TestCase):
    """``default_tolerances`` and the table that it reads."""

    def test_every_dtype_has_torchs_own_tolerances(self) -> None:
        """The table agrees with ``torch.testing.assert_close`` for every dtype of the installed torch."""
        dtypes = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
        for dtype in set(dtypes.values()):
            name = str(dtype).removeprefix("torch.")
            with self.subTest(dtype=name):
                self.assertEqual(
                    default_tolerances(name), torch.testing._comparison.default_tolerances(dtype)
                )
        self.assertLessEqual(set(BY_DTYPE), set(dtypes))

    def test_two_dtypes_get_the_looser_of_both(self) -> None:
        """The relative and the absolute tolerance are each the larger one, in either order."""
        cases = {
            ("float16", "float64"): (1e-3, 1e-5),
            ("bfloat16", "float16"): (1.6e-2, 1e-5),
            ("float32", "int64"): FLOAT32,
            ("int32", "bool"): EXACT,
        }
        for dtypes, expected in cases.items():
            with self.subTest(dtypes=dtypes):
                self.assertEqual(default_tolerances(*dtypes), expected)
                self.assertEqual(default_tolerances(*reversed(dtypes)), expected)

    def test_python_floats_are_compared_as_float32(self) -> None:
        """A Python float has the tolerances of a float32 tensor."""
        self.assertEqual(PYTHON_FLOAT, default_tolerances("float32"))

    def test_the_module_imports_no_torch(self) -> None:
        """The tolerances can be read in a process that has no torch."""
        code = f"import sys, {tolerances.__name__}; sys.exit('torch' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
