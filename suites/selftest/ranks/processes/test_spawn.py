"""Tests the start of a rank as a new interpreter, played by a shell script that notes what it gets."""

from __future__ import annotations

import contextlib
import os
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from harness.protocol import Assignment, Launch, ModuleRef, decode
from harness.ranks.processes.spawn import SpawnLauncher, exec_rank
from harness.system.server_process import ROOT, interpreter_flags
from suites.selftest.faults.clean import CleanTestCase

# Stands in for the interpreter: it notes its arguments, its standard input and its descriptors, prints to
# both streams, and waits to be let go.
SCRIPT = """#!/bin/sh
printf '%s\\n' "$@" > {directory}/arguments
cat > {directory}/input
for fd in /proc/$$/fd/*; do echo "${{fd##*/}} $(readlink $fd)"; done > {directory}/descriptors
echo printed
echo complained >&2
exit 5
"""


class ExecRankTest(CleanTestCase):
    """``exec_rank``, which starts the interpreter of one rank."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.temporary)
        names = ("channel", "stack", "log", "output", "another")
        self.files = {name: os.open(self.directory / name, os.O_RDWR | os.O_CREAT) for name in names}
        for name, fd in self.files.items():
            self.addCleanup((self.directory / name).unlink)
            self.addCleanup(os.close, fd)
        launch = Launch(ModuleRef("m"), "Case", "test", 2, "", {}, "/", [], [])
        own = {name: self.files[name] for name in ("channel", "output", "stack", "log")}
        self.assignment = Assignment(rank=1, launch=launch, server_pid=os.getpid(), **own)

    @contextlib.contextmanager
    def interpreter(self) -> Iterator[None]:
        """Puts the script in the place of the interpreter."""
        script = self.directory / "python"
        script.write_text(SCRIPT.format(directory=self.directory))
        script.chmod(0o700)
        try:
            with mock.patch.object(sys, "executable", str(script)):
                yield
        finally:
            for name in ("python", "arguments", "input", "descriptors"):
                (self.directory / name).unlink(missing_ok=True)

    def noted(self, name: str) -> str:
        """Returns what the script has noted or printed."""
        return (self.directory / name).read_text()

    def test_what_a_rank_gets(self) -> None:
        """A rank finds its assignment on standard input, and has its own descriptors and no others."""
        with self.interpreter():
            pid = exec_rank(self.assignment, [self.files["another"]])
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            self.assertEqual(os.getpgid(pid), pid)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)
            self.assertEqual(decode(self.noted("input").encode()), self.assignment)
            arguments = self.noted("arguments").splitlines()
            descriptors = dict(line.split(" ", 1) for line in self.noted("descriptors").splitlines())
        self.assertEqual(arguments[: len(interpreter_flags())], interpreter_flags())
        self.assertEqual(arguments[-1], ROOT)
        for name in ("channel", "stack", "log"):
            self.assertEqual(descriptors[str(self.files[name])], str(self.directory / name))
        self.assertNotIn(str(self.directory / "another"), descriptors.values())
        self.assertEqual(self.noted("output"), "printed\ncomplained\n")

    def test_nobody_else_inherits_them(self) -> None:
        """A rank's descriptors can be inherited no longer than it takes to start that rank."""
        with self.interpreter():
            os.waitpid(exec_rank(self.assignment, []), 0)
        self.assertEqual([fd for fd in self.files.values() if os.get_inheritable(fd)], [])

    def test_no_interpreter(self) -> None:
        """A process that cannot be started is an OSError, and leaves nothing open."""
        missing = str(self.directory / "missing")
        with mock.patch.object(sys, "executable", missing), self.assertRaises(OSError):
            exec_rank(self.assignment, [])
        self.assertEqual([fd for fd in self.files.values() if os.get_inheritable(fd)], [])


class SpawnLauncherTest(unittest.TestCase):
    """``SpawnLauncher`` without a launch."""

    def test_its_server_needs_no_torch(self) -> None:
        """The server is there at once and has not imported torch, which only its ranks need."""
        launcher = SpawnLauncher()
        self.addCleanup(launcher.close)
        self.assertIsNone(launcher.server)
        launcher.ready("no_such_module", sys.path)
        server = launcher.server
        assert server is not None
        self.assertTrue(server.alive())
        self.assertNotIn("libtorch", Path(f"/proc/{server.pid}/maps").read_text())


if __name__ == "__main__":
    unittest.main()
