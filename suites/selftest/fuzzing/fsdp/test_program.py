"""Tests FSDP programs as values: names of modules, what is refused, and that JSON keeps all of them."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.fsdp.program import FsdpProgram, Step, from_json, to_json
from harness.fuzzing.training import model_of

BLOCKS = (("linear", "unit"), ("shared", "ignored"), ("odd", "unit"), ("buffer", ""))
PROGRAM = FsdpProgram((4,), BLOCKS, 2, True, (("reshard", 2),), (Step(2, "kept", True),), "adam")


class ProgramTest(unittest.TestCase):
    def test_modules(self) -> None:
        """Units come before the unit that they are in, and are modules of the source's class."""
        self.assertEqual(PROGRAM.modules("unit"), ["linear0", "inner.odd2", "inner"])
        self.assertEqual(PROGRAM.modules("ignored"), ["shared1"])
        self.assertEqual(replace(PROGRAM, inner=None).modules("unit"), ["linear0", "odd2"])
        module = model_of(PROGRAM.source)()
        for name in (*PROGRAM.modules("unit"), *PROGRAM.modules("ignored")):
            module.get_submodule(name)

    def test_shared_and_ignored(self) -> None:
        """A shared module that is ignored has its first name, by which its parameters are known."""
        blocks = (
            ("shared", ""),
            ("shared", "ignored"),
            ("shared", ""),
            ("shared", "ignored"),
            ("odd", "ignored"),
        )
        program = replace(PROGRAM, blocks=blocks)
        self.assertEqual(program.modules("ignored"), ["shared0", "inner.shared2", "inner.odd4"])
        module = model_of(program.source)()
        names = [name for name, _ in module.named_parameters()]
        for name in program.modules("ignored"):
            self.assertIn(f"{name}.weight", names)

    def test_json(self) -> None:
        self.assertEqual(from_json(json.loads(json.dumps(to_json(PROGRAM))), FsdpProgram), PROGRAM)

    def test_refused(self) -> None:
        refused: tuple[dict[str, Any], ...] = (
            {"blocks": (("nothing", ""),)},
            {"blocks": (("scalar", ""),)},
            {"blocks": (("buffer", "unit"),)},
            {"options": (("dtype", "float32"),)},
            {"options": (("reshard", 3),)},
            {"steps": (Step(clips=True),)},
            {"steps": (Step(restores="moved"),)},
            {"steps": (Step(restores="resized"),), "options": ()},
            {"steps": (Step(restores="resized"),), "blocks": (("odd", ""),), "inner": None, "unit": False},
            {"options": (("compile", "all"),)},
            {"inner": 5},
        )
        for changes in refused:
            with self.subTest(changes), self.assertRaises(UsageError):
                replace(PROGRAM, **changes)


if __name__ == "__main__":
    unittest.main()
