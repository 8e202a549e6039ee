"""Tests what is tried of a backend."""

from __future__ import annotations

import unittest

from harness.target_draft.tries import Try, further, operations
from harness.targets.target import MESSAGES, MOVING, REDUCING, Capability


class TriesTest(unittest.TestCase):
    """``operations`` and ``further``."""

    def test_operations(self) -> None:
        """Each operation is tried once; a message is one of both ends."""
        tries = operations()
        self.assertEqual(
            {each.operation for each in tries} | {"recv"}, {*MOVING, *REDUCING, *MESSAGES} | {"recv"}
        )
        self.assertEqual(len({each.operation for each in tries}), len(tries))
        self.assertTrue(all(bool(each.reduction) == (each.operation in REDUCING) for each in tries))

    def test_further(self) -> None:
        """Only operations that work are tried with other dtypes, and nothing is tried twice."""
        done = [Try("broadcast", "float32"), Try("all_reduce", "float32", "sum")]
        tries = further(done)
        self.assertEqual(len(set(tries)), len(tries))
        self.assertFalse(set(tries) & set(done))
        self.assertEqual({each.operation for each in tries}, {"", "broadcast", "all_reduce"})
        self.assertIn(Try("broadcast", "float8_e5m2"), tries)
        self.assertIn(Try("all_reduce", "int32", "avg"), tries)
        for undefined in (Try("all_reduce", "bool", "avg"), Try("all_reduce", "float32", "band")):
            self.assertNotIn(undefined, tries)
        names = {each.capability for each in tries if each.capability}
        self.assertEqual(names, {each.name for each in Capability} - {"COMPILED_DDP", "FSDP1", "INDUCTOR"})

    def test_words(self) -> None:
        """A try says what it is."""
        self.assertEqual(str(Try("all_reduce", "int8", "max")), "all_reduce MAX int8")
        self.assertEqual(str(Try(capability="TAGS")), "TAGS")
        self.assertEqual(Try(**Try("send", "int8").to_json()), Try("send", "int8"))


if __name__ == "__main__":
    unittest.main()
