"""``CleanTestCase``: fails a self-test that leaves processes, descriptors, files or threads behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import unittest
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.ranks.processes import choose_launcher
from harness.ranks.processes.launcher import ServerLauncher
from harness.system import posix, scratch


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What this process owns at one moment, except the launchers' servers, which stay alive by design."""

    descriptors: frozenset[tuple[int, str]]
    processes: frozenset[tuple[int, str]]
    files: frozenset[str]
    threads: frozenset[int | None]
    handlers: tuple[object, ...]
    cwd: str

    def more_than(self, before: Snapshot) -> dict[str, object]:
        """Returns what is here now and was not in ``before``, by kind; the dict is empty if
        nothing was left.
        """
        found: dict[str, object] = {
            "descriptors": sorted(self.descriptors - before.descriptors),
            "processes": sorted(self.processes - before.processes),
            "files": sorted(self.files - before.files),
            "threads": sorted(map(str, self.threads - before.threads)),
        }
        if self.handlers != before.handlers:
            found["signal handlers"] = self.handlers
        if self.cwd != before.cwd:
            found["cwd"] = self.cwd
        return {kind: what for kind, what in found.items() if what}


class CleanTestCase(unittest.TestCase):
    """Checks after each test of every subclass that the test left nothing behind.

    Before ``setUp`` proper and after the last cleanup, it takes a snapshot of this process: its descriptors
    with their targets (``/proc/self/fd``), its descendants (psutil, recursively), its threads, its handlers
    of SIGINT, SIGTERM and SIGCHLD, its working directory, and all files below TMPDIR, which is a private
    directory for the test. Whatever is new in the second snapshot fails the test. This covers the harness's
    ranks because they and all that they start descend from this process, which adopts orphans
    (PR_SET_CHILD_SUBREAPER), so that a daemon whose server died shows up here and not with init; and because
    ranks get this TMPDIR, so that files of the launcher, the case and the rank are found.

    Limits: what lives as long as this process by design is left out, namely a server with its control socket
    and the scratch directory (but not its contents; another test checks what a server keeps open). So is the
    byte code that Python writes of modules that a test has put there, and that ranks import. Files outside
    TMPDIR and shared memory without a name are not seen. A process that is about to end still counts as left
    behind.
    """

    def setUp(self) -> None:
        super().setUp()
        posix.adopt_orphans()
        self.temporary = tempfile.mkdtemp(prefix="selftest-")
        self.addCleanup(shutil.rmtree, self.temporary)
        self._use_temporary(self.temporary)
        before = self._snapshot()
        self.addCleanup(self._compare, before)

    def _use_temporary(self, directory: str) -> None:
        def restore(environ: str | None, cached: str | None) -> None:
            if environ is None:
                os.environ.pop("TMPDIR", None)
            else:
                os.environ["TMPDIR"] = environ
            tempfile.tempdir = cached

        self.addCleanup(restore, os.environ.get("TMPDIR"), tempfile.tempdir)
        os.environ["TMPDIR"] = directory
        tempfile.tempdir = None

    def _snapshot(self) -> Snapshot:
        controls, servers = _servers()
        return Snapshot(
            descriptors=frozenset(_descriptors() - controls),
            processes=frozenset(_descendants(servers)),
            files=frozenset(_files_below(Path(self.temporary))) - _scratch_directory(),
            threads=frozenset(t.ident for t in threading.enumerate()),
            handlers=tuple(signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)),
            cwd=os.getcwd(),
        )

    def _compare(self, before: Snapshot) -> None:
        left = self._snapshot().more_than(before)
        self.assertFalse(left, f"left behind: {left}")


def _servers() -> tuple[set[tuple[int, str]], set[int]]:
    """Returns the control descriptors and the process ids of the servers that this process keeps."""
    controls: set[tuple[int, str]] = set()
    pids: set[int] = set()
    for launcher in choose_launcher.launchers().values():
        assert isinstance(launcher, ServerLauncher), launcher
        server = launcher.server
        if server is not None and server.control.fileno() >= 0:
            fd = server.control.fileno()
            controls.add((fd, os.readlink(f"/proc/self/fd/{fd}")))
            pids.add(server.pid)
    return controls, pids


def _files_below(directory: Path) -> set[str]:
    """Returns the files and directories there, but for byte code."""
    return {str(path) for path in directory.rglob("*") if "__pycache__" not in path.parts}


def _scratch_directory() -> set[str]:
    """Returns the directory that this process keeps for rendezvous files."""
    return {scratch.scratch().path}


def _descriptors() -> set[tuple[int, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
    return found


def _descendants(servers: set[int]) -> set[tuple[int, str]]:
    """Returns the living descendants other than servers, and reaps dead ones that this process adopted."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.pid in servers:
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
                continue
            found.add((process.pid, " ".join(process.cmdline())))
    return found
