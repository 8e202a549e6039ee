"""Tests scripts of programs that train: they contain what they need, and nothing of this project."""

from __future__ import annotations

import unittest

from harness.fuzzing.ddp import training as of_ddp
from harness.fuzzing.fsdp import training as of_fsdp
from harness.fuzzing.fsdp1 import training as of_fsdp1
from harness.fuzzing.training_script import script


class ScriptTest(unittest.TestCase):
    def test_parts(self) -> None:
        for modules in ((of_ddp,), (of_fsdp,), (of_fsdp, of_fsdp1)):
            with self.subTest(modules[-1].__name__):
                text = script(modules, "class Model: pass", ["WORLD = 2"], "check(Model, rank)")
                compile(text, "script", "exec")
                self.assertNotIn("harness", text)
                for part in (
                    "def difference(",
                    "def check(",
                    "class Model",
                    "WORLD = 2\n",
                ):
                    self.assertIn(part, text)
                self.assertEqual(text.count("from __future__"), 1)


if __name__ == "__main__":
    unittest.main()
