"""Tests ``torch-harness conformance diff``: exit codes and messages."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from harness.conformance.cli import main
from harness.conformance.document import dumps
from harness.conformance.matrix import State
from suites.selftest.conformance.samples import cell, report


class CommandTest(unittest.TestCase):
    """On files in a temporary directory."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        for name, state in (("good", State.RIGHT), ("bad", State.WRONG)):
            (self.root / f"{name}.json").write_text(dumps(report(cell(state))), encoding="utf-8")

    def diff(self, *names: str) -> tuple[int, str, str]:
        """Runs the command; returns its exit code, output and messages."""
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            try:
                code = main(["diff", *(str(self.root / name) for name in names)], "torch-harness conformance")
            except SystemExit as ending:
                code = int(ending.code or 0)
        return code, out.getvalue(), err.getvalue()

    def test_exit_codes(self) -> None:
        """1 where anything is lost, else 0; 2 where a report cannot be read or the command line is wrong."""
        for names, code in (
            (("good.json", "bad.json"), 1),
            (("bad.json", "good.json"), 0),
            (("good.json", "good.json"), 0),
            (("good.json", "none.json"), 2),
            (("good.json",), 2),
        ):
            with self.subTest(names):
                self.assertEqual(self.diff(*names)[0], code)

    def test_messages(self) -> None:
        """The changes are printed; what cannot be read is one line on standard error."""
        self.assertIn("1 lost, 0 gone, 0 gained\n", self.diff("good.json", "bad.json")[1])
        _, out, err = self.diff("good.json", "none.json")
        self.assertEqual(out, "")
        self.assertRegex(err, r"^torch-harness conformance: error: .*none\.json is not there: .*\n$")


if __name__ == "__main__":
    unittest.main()
