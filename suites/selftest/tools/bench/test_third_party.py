"""Tests the comparison of other projects' test files, on a small file that is run all ways."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

from suites.selftest.forked_case import ForkedCase
from tools.bench import third_party, third_party_runs
from tools.bench.third_party_list import Reason, ThirdPartyFile
from tools.bench.third_party_runs import PLUGIN, RUNNER, UPSTREAM, WAYS
from tools.bench.upstream_file import NOT_PASSED, PASSED, SKIPPED

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# A rank that ends early with exit code 0 passes on upstream's ranks alone. One rank is enough, since each of
# upstream's imports torch.
SMALL = """
    import os
    import unittest
    import pytest
    from torch.testing._internal.common_distributed import MultiProcessTestCase

    class Plain(unittest.TestCase):
        def test_passes(self):
            pass

    class Small(MultiProcessTestCase):
        world_size = 1

        def setUp(self):
            super().setUp()
            self._spawn_processes()

        def test_ends_early(self):
            os._exit(0)

        def test_ends_too(self):
            os._exit(0)

        @pytest.mark.skipif(True, reason="mark")
        def test_skipped(self):
            self.fail()
    """
HANGS = """
    import time

    def test_hangs():
        while True:
            time.sleep(60)
    """


class DifferencesTest(unittest.TestCase):
    """Which verdicts differ, and which of them have a reason."""

    def test_table(self) -> None:
        """Verdicts that differ are found on either side; a reason holds for exactly its verdicts."""
        upstream = {"same": PASSED, "known": PASSED, "other": PASSED, "upstream": SKIPPED}
        ours = {"same": PASSED, "known": NOT_PASSED, "other": SKIPPED, "ours": PASSED}
        reasons = [Reason("f", test, PASSED, NOT_PASSED, "why") for test in ("known", "other")]
        found = [str(each) for each in third_party.differences(upstream, PLUGIN, ours, reasons)]
        self.assertEqual(
            found,
            [
                "known: pytest passed, pytest --drop-in not passed (known: why)",
                "other: pytest passed, pytest --drop-in skipped",
                "ours: pytest not run, pytest --drop-in passed",
                "upstream: pytest skipped, pytest --drop-in not run",
            ],
        )


class MainTest(ForkedCase):
    """``main``, on files in a directory of their own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name).resolve() / "owner+name"
        self.root.mkdir()
        (self.root / "test_small.py").write_text(textwrap.dedent(SMALL))
        (self.root / "test_hangs.py").write_text(textwrap.dedent(HANGS))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.root)

    def main(self, *words: str) -> tuple[int, str, str]:
        """The exit code of a command line, and what it prints."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = third_party.main(words)
        return code, out.getvalue(), err.getvalue()

    def test_all_ways(self) -> None:
        """A verdict that differs is printed for both ways, with its reason if one is known; no other is."""
        reason = {"file": "test_small.py", "test": "Small::test_ends_early", "reason": "exit code 0"}
        entry = {
            "name": "owner/name",
            "commit": COMMIT,
            "files": ["test_small.py", "test_hangs.py"],
            "reasons": [{**reason, "upstream": PASSED, "ours": NOT_PASSED}],
        }
        path = self.root.parent / "list.json"
        path.write_text(json.dumps({"repositories": [entry]}))
        code, out, _ = self.main("--list", str(path), "--checkouts", str(self.root.parent), "--only", "small")
        for way in (PLUGIN, RUNNER):
            self.assertIn(
                f"  Small::test_ends_early: pytest passed, {way} not passed (known: exit code 0)\n", out
            )
            self.assertIn(f"  Small::test_ends_too: pytest passed, {way} not passed\n", out)
        self.assertRegex(
            out, r"test_small.py +4 +1 .* x +[1-9][\d.]*, [\d.]+, [\d.]+ +[1-9]\S* s, [\d.]+ +4\n"
        )
        self.assertIn("\n4 verdicts differ, 2 of them with a known reason\n", out)
        self.assertEqual(code, 1)

    def test_all_known(self) -> None:
        """Verdicts that differ with a reason are no failure."""
        played = {way: third_party_runs.Played(1.0, {"test_x": NOT_PASSED}, cpu_s=0.5) for way in WAYS}
        played[UPSTREAM] = third_party_runs.Played(2.0, {"test_x": PASSED})
        alone = third_party_runs.Played(0.7, {}, cpu_s=0.4)
        reasons = (Reason("test_small.py", "test_x", PASSED, NOT_PASSED, "why"),)
        file = ThirdPartyFile(self.root, "test_small.py", (), reasons)
        with (
            mock.patch.object(third_party, "play", lambda way, file, deadline_s: played[way]),
            mock.patch.object(third_party, "import_alone", lambda file, deadline_s: alone),
            mock.patch.object(third_party, "_files", lambda arguments: [file]),
        ):
            code, out, _ = self.main()
        row = r"test_small.py +1 +0 +2.0 s +1.0 s, 2.0 x +1.0 s, 2.0 x +0.0, 0.5, 0.5 +0.7 s, 0.4 +2\n"
        self.assertRegex(out, row)
        self.assertEqual(code, 0)

    def test_hang_of_one_way(self) -> None:
        """A run that does not end is ended at its deadline, and differs from those that did end."""
        played = {way: third_party_runs.Played(1.0, {"test_hangs": PASSED}) for way in WAYS}
        file = ThirdPartyFile(self.root, "test_hangs.py", (self.root,))
        played[UPSTREAM] = third_party_runs.play(UPSTREAM, file, 5.0)
        self.assertEqual(played[UPSTREAM].problem, "not ended within 5 s")
        with mock.patch.object(third_party, "play", lambda way, file, deadline_s: played[way]):
            code, out, _ = self.main("test_hangs.py")
        self.assertIn("  pytest: not ended within 5 s\n", out)
        self.assertIn("  test_hangs: pytest not run, pytest --drop-in passed\n", out)
        self.assertEqual(code, 1)

    def test_wrong_arguments(self) -> None:
        """Wrong input is one line and exit code 2."""
        table = {
            ("missing.py",): "missing.py does not exist",
            ("--list", "missing.json"): "missing.json cannot be read",
            ("--only", "no such file"): "has 'no such file' in its name",
        }
        for words, expected in table.items():
            with self.subTest(words):
                code, _, err = self.main(*words)
                self.assertRegex(err, rf"\Athird_party.py: error: .*{expected}.*\n\Z")
                self.assertEqual(code, 2)

    def test_wrong_values(self) -> None:
        """So are numbers that are none."""
        for words in (("--repeat", "0"), ("--deadline", "-1"), ("--deadline", "nan")):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as err:
                with self.assertRaises(SystemExit) as caught:
                    third_party.main([*words, "test_small.py"])
                self.assertEqual(caught.exception.code, 2)
                self.assertIn(f"argument {words[0]}: ", err.getvalue())


if __name__ == "__main__":
    unittest.main()
