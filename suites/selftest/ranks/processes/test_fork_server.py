"""Tests what becomes of a module that starts threads, and where every Python process has some."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[4])

# What a debugger, a profiler or an accelerator's plug-in does to every interpreter.
SITECUSTOMIZE = """
    import threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
# Two tests whose ranks count their threads; the file then prints how many fork servers were started.
FILE = """
    import os, sys, threading, unittest
    from harness import MultiProcessTestCase

    class Cases(MultiProcessTestCase):
        world_size = 2

        def test_first(self):
            self.assertEqual(threading.active_count(), 2)

        def test_second(self):
            pass

    if __name__ == "__main__":
        counts = []
        from harness.ranks.processes import fork_server
        start = fork_server.start_interpreter
        fork_server.start_interpreter = lambda *a, **more: counts.append(1) or start(*a, **more)
        run = unittest.main(exit=False, verbosity=2)
        print("servers", len(counts), file=sys.stderr)
        sys.exit(not run.result.wasSuccessful())
"""

# A test whose ranks import its module themselves, and tell what of torch was there before.
THREAD_OF_THE_MODULE = """
    import sys, threading, unittest

    there = [n for n in ("torch", "torch.testing._internal.common_utils") if n in sys.modules]
    import torch.testing._internal.common_utils
    from harness import MultiProcessTestCase

    threading.Thread(target=threading.Event().wait, daemon=True).start()

    class Cases(MultiProcessTestCase):
        world_size = 2

        def test_it(self):
            self.assertEqual(threading.active_count(), 2)
            self.assertIn("torch.testing._internal.common_utils", there)

    if __name__ == "__main__":
        unittest.main(verbosity=2)
"""


class ThreadOfAModuleTest(unittest.TestCase):
    """A module that starts a thread, which the ranks import themselves."""

    def test_torch_is_imported_once(self) -> None:
        """What the module imports of torch, the ranks have from their server."""
        with tempfile.TemporaryDirectory(prefix="selftest-") as directory:
            file = Path(directory, "file.py")
            file.write_text(textwrap.dedent(THREAD_OF_THE_MODULE))
            environ = {n: v for n, v in os.environ.items() if n != "HARNESS_LAUNCHER"} | {"PYTHONPATH": ROOT}
            run = subprocess.run(
                [sys.executable, str(file)], env=environ, stderr=subprocess.PIPE, text=True, check=False
            )
        self.assertEqual(run.returncode, 0, run.stderr)


class ThreadsEverywhereTest(unittest.TestCase):
    """Runs in an interpreter whose sitecustomize starts a thread."""

    def run_file(self, launcher: str | None) -> subprocess.CompletedProcess[str]:
        """Runs the two tests, with a launcher asked for by name or with none."""
        directory = tempfile.mkdtemp(prefix="selftest-")
        self.addCleanup(shutil.rmtree, directory)
        Path(directory, "sitecustomize.py").write_text(textwrap.dedent(SITECUSTOMIZE))
        file = Path(directory, "file.py")
        file.write_text(textwrap.dedent(FILE))
        environ = {n: v for n, v in os.environ.items() if n != "HARNESS_LAUNCHER"}
        environ["PYTHONPATH"] = os.pathsep.join([directory, ROOT])
        if launcher is not None:
            environ["HARNESS_LAUNCHER"] = launcher
        return subprocess.run(
            [sys.executable, str(file)], env=environ, stderr=subprocess.PIPE, text=True, check=False
        )

    def test_nobody_asked_for_a_launcher(self) -> None:
        """If no launcher was asked for, both tests pass, after two fork servers were tried once."""
        run = self.run_file(None)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Ran 2 tests", run.stderr)
        self.assertIn("servers 2", run.stderr)

    def test_fork_server_asked_for(self) -> None:
        """If the fork server was asked for, the error says what is wrong and what to do."""
        run = self.run_file("forkserver")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("HARNESS_LAUNCHER=spawn", run.stderr)
        self.assertIn("errors=2", run.stderr)


if __name__ == "__main__":
    unittest.main()
