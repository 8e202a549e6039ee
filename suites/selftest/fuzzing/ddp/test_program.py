"""Tests DDP programs as values: their source, what is refused, and that JSON keeps all of them."""

from __future__ import annotations

import json
import unittest
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.ddp.program import DdpProgram, Step, from_json, to_json

OPTIONS = (("bucket_cap_mb", 1e-5),)
PROGRAM = DdpProgram(2, ("shared", "linear", "shared"), OPTIONS, (Step(2, True),), "python")


def program(*blocks: str, hook: str = "", **options: Any) -> DdpProgram:
    """A program of one step."""
    return DdpProgram(2, blocks, tuple(options.items()), (Step(),), hook)


class ProgramTest(unittest.TestCase):
    def test_source(self) -> None:
        """A block that shares names the first of its kind."""
        self.assertIn("self.shared2 = self.shared0 if 2 != 0 else", PROGRAM.source)
        self.assertIn("h = torch.tanh(self.linear1(h))", PROGRAM.source)

    def test_json(self) -> None:
        self.assertEqual(from_json(json.loads(json.dumps(to_json(PROGRAM)))), PROGRAM)

    def test_refused(self) -> None:
        """What is not there, and what DDP documents to need an option or to exclude it."""
        for blocks, given in (
            (("nothing",), {}),
            ((), {"hook": "nothing"}),
            (("unused",), {}),
            (("branch",), {"static_graph": True}),
        ):
            with self.subTest(blocks=blocks, given=given), self.assertRaises(UsageError):
                program(*blocks, **given)
        program("unused", static_graph=True)
        program("branch", find_unused_parameters=True)


if __name__ == "__main__":
    unittest.main()
