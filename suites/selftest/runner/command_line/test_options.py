"""Tests the options of the command line: what they mean, which are refused and what --help says of them."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import unittest
from unittest import mock

from harness import __version__
from harness.errors import UsageError
from harness.runner.command_line.help_text import DESCRIPTION, epilog
from harness.runner.command_line.options import LARGEST_COUNT, LARGEST_JOBS, build, parse
from harness.runner.run_directory import KEPT_RUNS
from harness.setting_values import LARGEST_SEED
from harness.settings import RANK_MODES


class RefusalTest(unittest.TestCase):
    """Options that cannot be meant are refused in one line that says what to write."""

    def test_table(self) -> None:
        """Misspelled options, bad values and contradictory options are refused."""
        table = [
            (["--isolat"], "did you mean --isolate"),
            (["--job", "2"], "did you mean --jobs"),
            (["--zzz"], "--help lists"),
            (["--jobs", "0"], "whole number from 1"),
            (["--jobs", "many"], "whole number from 1"),
            (["--jobs", str(LARGEST_JOBS + 1)], f"to {LARGEST_JOBS}"),
            (["--repeat", str(LARGEST_COUNT + 1)], f"to {LARGEST_COUNT}"),
            (["--repeat", "\u0664"], "whole number from 1"),  # a digit, but not one of ASCII
            (["--timeout", "-1"], "seconds above 0"),
            (["--timeout", "nan"], "seconds above 0"),
            (["--timeout", "inf"], "seconds above 0"),
            (["--seed", "4294967296"], "whole number from 0 to 4294967295"),
            (["--shuffle", "c10d"], "'c10d'"),
            (["--reruns", "x"], "whole number"),
            (["--flaky", "maybe"], "'pass', 'fail'"),
            (["--json"], "goes with --list"),
            (["--until-fail", "--reruns", "1"], "exclude each other"),
            (["--resume=x", "c10d"], "--resume=DIR"),
            (["--resume=x", "c10d", "--report-dir", "d"], "--resume=DIR"),
            (["--resume", "--last-failed"], "exclude each other"),
            (["--pdb", "--pdb-rank", "0"], "exclude each other"),
            (["--pdb-rank", "first"], "whole number"),
            (["--also", "mine", "--device", "cpu"], "--also goes with none of --backend, --device"),
            (["--also", "mine", "--plugin", "other"], "--also goes with none of --backend, --device"),
        ]
        for argv, wanted in table:
            with self.subTest(argv=argv), self.assertRaises(UsageError) as caught:
                parse(argv)
            self.assertIn(wanted, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))


class MeaningTest(unittest.TestCase):
    """The values of options that are accepted."""

    def test_words_between_options(self) -> None:
        """Names may stand between options."""
        options = parse(["c10d", "-v", "aot", "-k", "x", "--jobs=auto"])
        self.assertEqual((options.names, options.verbose, options.keywords), (["c10d", "aot"], 1, ["x"]))

    def test_values(self) -> None:
        """Values have the types that the runner uses, and optional values have a default of their own."""
        table: list[tuple[list[str], str, object]] = [
            ([], "jobs", 0),
            (["--jobs", "auto"], "jobs", 0),
            (["-j", "3"], "jobs", 3),
            ([], "timeout", None),
            (["--timeout", "1.5"], "timeout", 1.5),
            (["--seed", str(LARGEST_SEED)], "seed", LARGEST_SEED),
            ([], "shuffle", None),
            (["--shuffle"], "shuffle", -1),
            (["--shuffle", "0"], "shuffle", 0),
            ([], "resume", None),
            (["--resume"], "resume", ""),
            (["--resume=here"], "resume", "here"),
            (["-vv"], "verbose", 2),
            (["--flaky", "fail"], "flaky", "fail"),
            ([], "flaky", "pass"),
            (["-k", "a", "-k", "b"], "keywords", ["a", "b"]),
            (["--report", "html"], "report", ["html"]),
            (["--pdb-rank", "0"], "pdb_rank", 0),
        ]
        for argv, name, value in table:
            with self.subTest(argv=argv, name=name):
                self.assertEqual(getattr(parse(argv), name), value)

    def test_rank_modes(self) -> None:
        """--ranks takes every rank mode that HARNESS_RANKS takes."""
        self.assertEqual([parse(["--ranks", mode]).ranks for mode in RANK_MODES], list(RANK_MODES))

    def test_no_shared_lists(self) -> None:
        """Lists of one command line are not those of the next."""
        parse(["-k", "x"]).keywords.append("y")
        self.assertEqual(parse([]).keywords, [])


class HelpTest(unittest.TestCase):
    """The text of --help."""

    def test_complete(self) -> None:
        """Every option is described, between the texts before and after the options."""
        text = build().format_help()
        self.assertIn(f".harness/runs, which keeps {KEPT_RUNS}", " ".join(text.split()))
        self.assertIn(DESCRIPTION, text)
        self.assertIn(epilog(), text)
        # An option is followed by its description, on the same line or on the next one, which is indented.
        options = re.findall(r"(?m)^  (?=(-.*\n.*))", text.partition("exit codes:")[0])
        self.assertGreater(len(options), 30)
        for option in options:
            self.assertRegex(option, r"^\S.*?(  +|\n {20} +)\w", option)

    def test_name(self) -> None:
        """The installed command calls itself by its name, a tree's script by its own."""
        for started, name in (
            ("/usr/bin/torch-harness", "torch-harness"),
            ("x/run_tests.py", "run_tests.py"),
        ):
            with mock.patch.object(sys, "argv", [started]):
                self.assertTrue(build().format_help().startswith(f"usage: {name} [options] [NAME ...]\n"))

    def test_version(self) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), self.assertRaises(SystemExit) as caught:
            parse(["--version"])
        self.assertEqual((printed.getvalue(), caught.exception.code), (f"torch-harness {__version__}\n", 0))

    def test_exits_with_success(self) -> None:
        """Help is printed on standard output, and the exit code is 0."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), self.assertRaises(SystemExit) as caught:
            parse(["--help"])
        self.assertFalse(caught.exception.code)
        self.assertEqual(printed.getvalue(), build().format_help())


if __name__ == "__main__":
    unittest.main()
