"""Tests DTensor programs as values: what is refused, their source, and that JSON keeps all of them."""

from __future__ import annotations

import json
import unittest

from harness.errors import UsageError
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement, from_json, to_json

SUM = Statement("{0} + {1}", (0, 0))
MOVED = Statement("", (1,), ("Replicate()",))
INPUT = Input((2, 3), ("Shard(0)",), grad=True)
PROGRAM = DTensorProgram((2,), (INPUT,), (SUM, MOVED), backward=True)


class ProgramTest(unittest.TestCase):
    def test_source(self) -> None:
        """The function names values by their order."""
        self.assertEqual(
            PROGRAM.source.splitlines(),
            [
                "def program(v0):",
                "    v1 = v0 + v0",
                "    v2 = redistribute(v1, [Replicate()])",
                "    return [v0, v1, v2]",
            ],
        )

    def test_text_names_placements(self) -> None:
        self.assertIn("v0 = float64(2, 3) Shard(0) grad", str(PROGRAM))

    def test_json(self) -> None:
        """A program survives the way through JSON."""
        self.assertEqual(from_json(json.loads(json.dumps(to_json(PROGRAM)))), PROGRAM)

    def test_refused(self) -> None:
        """Values that stand for no program."""
        for what, make in (
            ("as many placements", lambda: DTensorProgram((2, 2), (INPUT,), ())),
            ("as many placements", lambda: DTensorProgram((2, 2), (), (MOVED,))),
            ("not there yet", lambda: DTensorProgram((2,), (INPUT,), (MOVED,))),
            ("a template or placements", lambda: Statement("", (0,))),
            ("a template or placements", lambda: Statement("{0}", (0,), ("Replicate()",))),
        ):
            with self.subTest(what), self.assertRaisesRegex(UsageError, what):
                make()


if __name__ == "__main__":
    unittest.main()
