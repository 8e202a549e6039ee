"""Tests which exits of a module's import mean that there is nothing to test."""

from __future__ import annotations

import os
import unittest
from unittest import mock

from harness.dropin import exit_at_import
from harness.settings import EnvVar

UNGUARDED = """
import types, unittest
class T(unittest.TestCase):
    def test(self): pass
module = types.ModuleType("made")
module.T = T
unittest.main(module, argv=["made", "-q"])
"""
IN_A_FUNCTION = "import sys\ndef leave():\n    sys.exit(0)\nleave()"


def raised(source: str) -> BaseException:
    """What a module with this source, ``/there/test_it.py``, raises when it is imported."""
    try:
        exec(compile(source, "/there/test_it.py", "exec"), {"__name__": "test_it"})
    except BaseException as error:  # noqa: BLE001 - an exit is what this is about
        return error
    raise AssertionError("nothing was raised")


class ReasonTest(unittest.TestCase):
    """``reason``, on modules that end in many ways."""

    def test_exits(self) -> None:
        """Only a module's own statement that exits with 0 is a reason, which says where it is."""
        table = {
            "import sys\nif True:\n    sys.exit(0)": "sys.exit(0) in test_it.py:3 ",
            "import sys; sys.exit()": "sys.exit(0) in test_it.py:1 ",
            "raise SystemExit": "sys.exit(0) in test_it.py:1 ",
            "import sys; sys.exit(1)": "",
            "import sys; sys.exit(False)": "",
            "import sys; sys.exit('no backend')": "",
            IN_A_FUNCTION: "",
            UNGUARDED: "",
            "raise KeyboardInterrupt": "",
            "1 / 0": "",
        }
        for source, text in table.items():
            with self.subTest(source), mock.patch.dict(os.environ, {EnvVar.DROP_IN: "1"}):
                found = exit_at_import.reason(raised(source))
                self.assertEqual(bool(found), bool(text), found)
                self.assertIn(text, found)

    def test_no_drop_in(self) -> None:
        """Without the drop-in it is none."""
        with mock.patch.dict(os.environ):
            os.environ.pop(EnvVar.DROP_IN, None)
            self.assertEqual(exit_at_import.reason(raised("import sys; sys.exit(0)")), "")


if __name__ == "__main__":
    unittest.main()
