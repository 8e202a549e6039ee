"""Tests programs of stores as the hunt's: on ranks, and as scripts that run alone."""

from __future__ import annotations

import unittest

from harness.fuzzing.player import played, quiet_environment
from harness.fuzzing.stores.hunted import StorePrograms
from harness.fuzzing.stores.program import Call, StoreProgram
from suites.selftest.fuzzing.scripts import alone, ended

ADDS = (Call(0, "add", ("n", 1)), Call(1, "add", ("n", 1)), Call(1, "get", ("n",)))


class HuntedTest(unittest.TestCase):
    def test_structure(self) -> None:
        fuzzer = StorePrograms()
        self.assertEqual(
            fuzzer.structure(StoreProgram("file", "turns", 2, ADDS)), "file; turns; add; add; get"
        )
        self.assertEqual(
            fuzzer.structure(StoreProgram("tcp", "ranks", 2, ADDS)), "tcp; ranks; add || add; get"
        )

    def test_ranks(self) -> None:
        fuzzer = StorePrograms()
        with quiet_environment():
            for kind, way, size in (("file", "ranks", 2), ("tcp", "ranks", 2), ("hash", "threads", 1)):
                program = StoreProgram(kind, way, 2, ADDS)
                with self.subTest(kind=kind, way=way):
                    self.assertEqual(fuzzer.world_size(program), size)
                    self.assertIsNone(played(fuzzer, program))

    def test_scripts(self) -> None:
        """The script passes as it is; with a model that counts otherwise it says which call is wrong."""
        fuzzer = StorePrograms()
        for way, said in (
            ("turns", "add gives 1 for 2"),
            ("ranks", "no order of the calls gives what they gave"),
        ):
            script = fuzzer.script(StoreProgram("file", way, 2, ADDS))
            self.assertNotIn("harness", script)
            with self.subTest(way):
                right, wrong = alone(script), ended(script.replace("int(cell.value or 0) +", "1 +"))
                self.assertEqual(right.returncode, 0, right.stderr)
                self.assertEqual(wrong.returncode, 1)
                self.assertIn(f"AssertionError: {said}", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
