"""Tests what a program of a store can be, and that JSON has it."""

from __future__ import annotations

import json
import unittest

from harness.errors import UsageError
from harness.fuzzing.stores.program import Call, StoreProgram, from_json, to_json

SET = Call(0, "set", ("a", "1"))


class ProgramTest(unittest.TestCase):
    def test_encoded(self) -> None:
        calls = (SET, Call(1, "multi_get", (("a", "b"),)), Call(1, "add", ("n", -3)))
        program = StoreProgram("prefix tcp", "ranks", 2, calls)
        self.assertEqual(from_json(json.loads(json.dumps(to_json(program)))), program)

    def test_refused(self) -> None:
        table = [
            ("disk", "turns", 1, "no such kind"),
            ("hash", "hosts", 1, "no such kind or way"),
            ("prefix hash", "ranks", 2, "in one process"),
            ("hash", "turns", 0, "0 clients"),
        ]
        for kind, way, clients, error in table:
            with self.subTest(kind=kind, way=way), self.assertRaisesRegex(UsageError, error):
                StoreProgram(kind, way, clients, (SET,))


if __name__ == "__main__":
    unittest.main()
