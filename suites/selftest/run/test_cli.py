"""Tests the command: usage errors, signals, a harness that breaks, and the two ways to it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import unittest
from collections.abc import Iterator
from unittest import mock

from harness.errors import LaunchError
from harness.run.cli import main
from harness.runner import cli as runner_cli
from suites.selftest.run.scripts import TREE, ScriptCase

# Every rank says that it hangs, with its process id, and that of its parent, the server.
HANGS = """
    import os, threading

    def hang():
        print("hangs", os.getpid(), os.getppid()); threading.Event().wait()

    hang()
    """


class UsageTest(unittest.TestCase):
    """Command lines that nothing is run for."""

    def said(self, *words: str) -> tuple[int, str]:
        """Returns the exit code and what standard error gets."""
        with contextlib.redirect_stderr(io.StringIO()) as err:
            return main(words, "torch-harness run"), err.getvalue()

    def test_table(self) -> None:
        """Each is exit code 2 and one line."""
        for words, said in (
            (["-n", "0", "t.py"], "'0': write a whole number"),
            (["-n", "2", "nosuch.py"], "there is no script 'nosuch.py'"),
            (["-n", "2", "-m", "nosuch.module"], "there is no module 'nosuch.module'"),
            (["-n", "2", "--bogus", "t.py"], "unknown option --bogus"),
        ):
            with self.subTest(words):
                code, text = self.said(*words)
                self.assertEqual((code, text.count("\n")), (2, 1))
                self.assertRegex(text, f"^torch-harness run: error: .*{re.escape(said)}")

    def test_variable(self) -> None:
        """A variable that cannot be used is one, too; so is a debugged rank that does not exist."""
        for name, value in (("HARNESS_GRACE", "soon"), ("HARNESS_PDB_RANK", "2")):
            with self.subTest(name), mock.patch.dict(os.environ, {name: value}):
                code, text = self.said("-n", "2", __file__)
                self.assertEqual((code, text.count("\n")), (2, 1), text)

    def test_harness_fails(self) -> None:
        """Where no rank can be started, the exit code is 3."""
        with mock.patch("harness.run.launch.FreshRanks", side_effect=LaunchError("no processes")):
            self.assertEqual(
                self.said("-n", "2", __file__), (3, "torch-harness run: the harness failed: no processes\n")
            )


@contextlib.contextmanager
def heard(number: int) -> Iterator[None]:
    """Lets what is started meanwhile hear a signal, which ``nohup`` or a shell's ``&`` may have it ignore."""
    before = signal.signal(number, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(number, before)


class CommandTest(ScriptCase):
    """Whole runs of the command."""

    def hanging(self, ranks: int) -> tuple[subprocess.Popen[str], list[int], int]:
        """Starts ranks, waits until all hang, and returns their process ids and that of their server."""
        self.write("hangs.py", HANGS)
        process = self.start("-n", str(ranks), "--output", "stream", "hangs.py")
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(ranks)]
        self.assertEqual({line[2] for line in lines}, {"hangs"})
        return process, [int(line[3]) for line in lines], int(lines[0][4])

    def test_signals(self) -> None:
        """Ctrl-C, SIGTERM and SIGHUP end all ranks, say where each was, and give exit code 130."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                with heard(number):
                    process, pids, _ = self.hanging(3)
                process.send_signal(number)
                run = self.finish(process)
                self.assertEqual(run.code, 130, run.err)
                self.assertIn("cause: interrupted", run.err)
                self.assertRegex(run.err, r"ranks 0-2 are at hangs\.py:\d+ in hang")
                for pid in pids:
                    self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_no_hangup(self) -> None:
        """Where SIGHUP is ignored, as under nohup, it stays so in the command."""
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        process, _, _ = self.hanging(1)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process).code, 130)

    def test_server_is_lost(self) -> None:
        """A server that dies under its ranks is the harness's failure: exit code 3."""
        process, _, server = self.hanging(2)
        os.kill(server, signal.SIGKILL)
        run = self.finish(process)
        self.assertEqual(run.code, 3, run.err)
        self.assertIn(
            f"the server that started the ranks died (process {server} ended with signal SIGKILL)", run.err
        )

    def test_closed_output(self) -> None:
        """A reader that goes away ends the ranks without a word."""
        self.write("prints.py", "import sys\nfor _ in range(100000): print('x' * 100)")
        process = self.start("-n", "1", "prints.py")
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        run = self.finish(process)
        self.assertEqual((run.code, run.err), (141, ""))

    def test_by_the_runner(self) -> None:
        """``run`` is a word of the runner's command too, and names it in what it says."""
        for program, prog in (
            ("/somewhere/bin/torch-harness", "torch-harness run"),
            ("run_tests.py", "python run_tests.py run"),
        ):
            with (
                self.subTest(program),
                mock.patch.object(sys, "argv", [program, "run", "-n", "2"]),
                contextlib.redirect_stderr(io.StringIO()) as err,
            ):
                self.assertEqual(runner_cli.main(), 2)
                self.assertTrue(err.getvalue().startswith(f"{prog}: error: name a script"), err.getvalue())

    def test_light(self) -> None:
        """Neither help nor a wrong command line imports torch, and neither does starting ranks."""
        code = (
            "import sys\nfrom harness.run.cli import main\n"
            "assert main(['-n', '0'], 'x') == 2\n"
            "assert 'harness.run.launch' not in sys.modules\n"
            "assert main(['-n', '1', sys.argv[1]], 'x') == 0\n"
            "assert 'torch' not in sys.modules"
        )
        path = self.write("script.py", "import torch")
        subprocess.run([sys.executable, "-c", code, path], cwd=TREE, check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()
