"""Tests the completion of options in a shell: real shells complete with the script that is printed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import unittest
from unittest import mock

from harness.errors import UsageError
from harness.runner.command_line.completion import SHELLS, script
from harness.runner.command_line.options import build
from suites.selftest.runner import runs
from suites.selftest.runner.test_cli_debugging import Terminal

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

    def typed(self, shell: str, load: str) -> None:
        """Types parts of options at a shell that has loaded its script; fails where it offers none."""
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        directory = runs.new_directory(self)
        command = [sys.executable, str(runs.RUN_TESTS), "--print-completion", shell]
        (directory / "script").write_text(subprocess.check_output(command, text=True))
        environ = runs.environ(directory, TERM="xterm", HOME=str(directory))
        terminal = Terminal([str(shutil.which(shell)), "-f", "-i"], environ, str(directory))
        terminal.type(f"{load}; echo load''ed")
        terminal.read_until("loaded")
        terminal.press(b"run_tests.py --report-d\t")
        terminal.read_until("--report-dir")
        terminal.press(b"x --flaky \t\t")
        terminal.read_until("pass")
        terminal.press(b"\x15exit\n")  # Ctrl-U removes the line
        terminal.close()

    @unittest.skipUnless(INSTALLED, NEEDED)
    def test_in_zsh(self) -> None:
        """The same, typed at a real zsh."""
        self.typed("zsh", 'autoload -U compinit; compinit -u -D; eval "$(cat script)"')

    @unittest.skipUnless(INSTALLED, NEEDED)
    def test_in_tcsh(self) -> None:
        """The same, typed at a real tcsh."""
        self.typed("tcsh", "set autolist; source script")

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
