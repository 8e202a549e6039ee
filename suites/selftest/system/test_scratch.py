"""Tests that temporary files are removed with the process that made them and by no other one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[3])

THREADS = """
    import unittest
    from harness import MultiThreadedTestCase

    class Cases(MultiThreadedTestCase):
        world_size = 2

        def test(self):
            pass

    unittest.main()
"""
FILE_STORE = """
    import os
    from harness.system.scratch import scratch

    path = scratch().new_file("rendezvous")
    if os.fork() == 0:
        raise SystemExit(0)  # with the exit handlers that it has inherited
    os.wait()
    assert os.path.exists(path)
"""
REMOVED = """
    import shutil
    from harness.system.closing import close_all
    from harness.system.scratch import scratch

    shutil.rmtree(scratch().path)
    scratch().new_file("one")
    close_all()
    scratch().new_file("two")
"""


class DirectoryTest(unittest.TestCase):
    """Processes that never start a rank process."""

    def leaves_nothing(self, code: str) -> None:
        """Checks that a process which runs ``code`` ends well and leaves its TMPDIR empty."""
        directory = tempfile.mkdtemp(prefix="selftest-")
        self.addCleanup(shutil.rmtree, directory)
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "TMPDIR": directory},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(os.listdir(directory), [])

    def test_threads_only(self) -> None:
        """A case whose ranks are threads leaves no file."""
        self.leaves_nothing(THREADS)

    def test_file_and_fork(self) -> None:
        """A file is removed at the end, but not by a forked child that runs the inherited exit handlers."""
        self.leaves_nothing(FILE_STORE)

    def test_removed_meanwhile(self) -> None:
        """New files after a removal by somebody else or by ``close_all`` are removed as well."""
        self.leaves_nothing(REMOVED)


if __name__ == "__main__":
    unittest.main()
