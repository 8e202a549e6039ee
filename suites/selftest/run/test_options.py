"""Tests the command line of ``torch-harness run``: what is the script's, and what is refused."""

from __future__ import annotations

import contextlib
import io
import unittest

from harness.errors import UsageError
from harness.run.options import Options, parse

PROG = "torch-harness run"


class OptionsTest(unittest.TestCase):
    """Command lines that make sense."""

    def test_table(self) -> None:
        """Everything behind the script, or behind the module's name, is the script's."""
        for line, wanted in (
            ("-n 4 train.py", Options(4, "train.py")),
            ("-n4 train.py", Options(4, "train.py")),
            ("--nproc-per-node=4 train.py", Options(4, "train.py")),
            ("--nproc_per_node 4 train.py", Options(4, "train.py")),
            ("-n 2 t.py -n 3 --help -- x", Options(2, "t.py", False, ("-n", "3", "--help", "--", "x"))),
            ("-n 2 -- train.py -- a", Options(2, "train.py", False, ("--", "a"))),
            ("-n 2 -- -odd.py", Options(2, "-odd.py")),
            ("-n 2 -m pkg.mod -m x", Options(2, "pkg.mod", True, ("-m", "x"))),
            ("-n 2 -mpkg.mod --timeout", Options(2, "pkg.mod", True, ("--timeout",))),
            ("-m pkg.mod -n 2", None),
            ("-n 2 --timeout 1.5 t.py", Options(2, "t.py", timeout_s=1.5)),
            ("-n 2 --output raw --log-dir d t.py", Options(2, "t.py", output="raw", log_dir="d")),
            ("-n 2 --master-port 29500 t.py", Options(2, "t.py", master_port=29500)),
        ):  # fmt: skip
            with self.subTest(line):
                if wanted is None:
                    self.assertRaises(UsageError, parse, line.split(), PROG)
                else:
                    self.assertEqual(parse(line.split(), PROG), wanted)

    def test_refusals(self) -> None:
        """A command line that makes no sense is an error of one line that says what to write."""
        for line, said in (
            ("", "-n N"),
            ("train.py", "-n N"),
            ("-n 2", "name a script"),
            ("-n 0 t.py", "whole number from 1"),
            ("-n -1 t.py", "'-1': write a whole number"),
            ("-n two t.py", "whole number from 1"),
            ("-n 2 --standalone t.py", "unknown option --standalone"),
            ("-n 2 --time 3 t.py", "unknown option --time"),
            ("-n 2 --timeout 0 t.py", "above 0"),
            ("-n 2 --timeout inf t.py", "above 0"),
            ("-n 2 --output loud t.py", "--output"),
            ("-n 2 --master-port 65536 t.py", "from 1 to 65535"),
            ("-n 2 -m", "one argument"),
        ):
            with self.subTest(line), self.assertRaises(UsageError) as caught:
                parse(line.split(), PROG)
            self.assertIn(said, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_help(self) -> None:
        """--help names each option, the exit codes and the variables of a rank."""
        with contextlib.redirect_stdout(io.StringIO()) as text, self.assertRaises(SystemExit) as ending:
            parse(["--help"], PROG)
        self.assertFalse(ending.exception.code)
        for word in (
            "-n",
            "-m MODULE",
            "--timeout",
            "--output",
            "--log-dir",
            "--master-port",
            "130",
            "LOCAL_RANK",
        ):
            with self.subTest(word):
                self.assertIn(word, text.getvalue())


if __name__ == "__main__":
    unittest.main()
