"""Tests which tests run where the command line names none."""

from __future__ import annotations

import unittest
from pathlib import Path

from harness.runner.selection.default_tests import SCRIPT, default_names
from suites.selftest.runner.runs import RUN_TESTS

TREE = RUN_TESTS.parent
ELSEWHERE = Path("/project/below")


class DefaultNamesTest(unittest.TestCase):
    """What ``default_names`` says by place and program."""

    def test_table(self) -> None:
        """The configuration's paths, else the suites in this tree or by its script, else all that is here."""
        command = "/env/bin/torch-harness"
        for paths, cwd, program, names in (
            ((), TREE, command, ()),
            ((), TREE / "suites", command, ()),
            ((), ELSEWHERE, str(TREE / SCRIPT), ()),
            ((), ELSEWHERE, command, (".",)),
            ((), ELSEWHERE, "/other/run_tests.py", (".",)),
            (("/project/tests", "/project/below/x.py"), ELSEWHERE, command, ("../tests", "x.py")),
            (("/project/tests",), ELSEWHERE, str(TREE / SCRIPT), ("../tests",)),
        ):
            with self.subTest(paths, cwd=cwd, program=program):
                self.assertEqual(default_names(paths, cwd, TREE, program), names)


if __name__ == "__main__":
    unittest.main()
