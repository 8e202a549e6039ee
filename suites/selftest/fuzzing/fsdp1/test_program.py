"""Tests which FSDP1 programs there are, that they survive JSON, and become simpler."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace

from harness.errors import UsageError
from harness.fuzzing.fsdp.program import Step, from_json, to_json
from harness.fuzzing.fsdp.shrink import simpler
from harness.fuzzing.fsdp1.program import Fsdp1Program

PROGRAM = Fsdp1Program((2,), (("linear", "unit"),), None, False, (("orig", True),), (Step(2),), "adam")


class ProgramTest(unittest.TestCase):
    def test_json(self) -> None:
        self.assertEqual(from_json(json.loads(json.dumps(to_json(PROGRAM))), Fsdp1Program), PROGRAM)

    def test_simpler(self) -> None:
        """The kind of program stays, and what FSDP1 refuses is left out."""
        found = list(simpler(replace(PROGRAM, blocks=(("frozen", ""),))))
        self.assertEqual({type(each) for each in found}, {Fsdp1Program})
        self.assertIn((), [each.blocks for each in found])
        self.assertNotIn((), [each.options for each in found])

    def test_refused(self) -> None:
        for changes, text in (
            ({"options": (("strategy", "HYBRID_SHARD"),)}, "two dimensions"),
            ({"mesh": (1, 2)}, "two dimensions"),
            ({"steps": (Step(clips=True),)}, "float64"),
            ({"steps": (Step(restores="resized"),)}, "restores is one of"),
            ({"options": (("reshard", True),)}, "no such block, role, option"),
            ({"options": (("prefetch", "both"),)}, "prefetch is one of"),
            ({"options": (), "blocks": (("frozen", ""),)}, "use_orig_params"),
            ({"blocks": (("unused", ""),)}, "does not support"),
        ):
            with self.subTest(str(changes)), self.assertRaisesRegex(UsageError, text):
                replace(PROGRAM, **changes)


if __name__ == "__main__":
    unittest.main()
