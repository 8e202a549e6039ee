"""Tests the completion of options in a shell: a real bash completes with the script that is printed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unittest
from unittest import mock

from harness.errors import UsageError
from harness.runner.completion import SHELLS, script
from harness.runner.options import build
from suites.selftest.runner import runs

INSTALLED = importlib.util.find_spec("shtab") is not None
NEEDED = "shtab is not installed; requirements.txt has it"


class CompletionTest(unittest.TestCase):
    """The script of ``--print-completion``."""

    def completed(self, *words: str) -> list[str]:
        """What bash offers for the last of the words of a command line."""
        file = runs.new_directory(self) / "completion"
        command = [sys.executable, str(runs.RUN_TESTS), "--print-completion", "bash"]
        file.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        line = " ".join(f"'{word}'" for word in ("run_tests.py", *words))
        code = (
            f"source '{file}'; COMP_WORDS=({line}); COMP_CWORD={len(words)}; "
            "f=$(complete -p run_tests.py | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $f; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True)
        return [line.strip() for line in done.stdout.splitlines()]

    @unittest.skipUnless(INSTALLED, NEEDED)
    def test_in_bash(self) -> None:
        """Options are completed, and the values of those that have a list of them."""
        self.assertEqual(self.completed("--report-d"), ["--report-dir"])
        self.assertEqual(self.completed("--flaky", ""), ["pass", "fail"])

    @unittest.skipUnless(INSTALLED, NEEDED)
    def test_shells(self) -> None:
        """Each shell has a script of its own that knows the options, and which of them take a directory."""
        scripts = {shell: script(build(), shell) for shell in SHELLS}
        self.assertEqual(len(set(scripts.values())), len(SHELLS))
        for shell, text in scripts.items():
            with self.subTest(shell):
                self.assertIn("report-dir", text)
        self.assertIn("_report_dir_COMPGEN=_shtab_compgen_dirs", scripts["bash"])

    def test_without_shtab(self) -> None:
        """Where shtab is not installed, one line says what to do."""
        with mock.patch.dict(sys.modules, {"shtab": None}), self.assertRaisesRegex(UsageError, "completion"):
            script(build(), "bash")


if __name__ == "__main__":
    unittest.main()
