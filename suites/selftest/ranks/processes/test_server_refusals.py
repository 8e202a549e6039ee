"""Tests ranks that cannot be started: the error says why, no rank is left, and the server lives on."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
import textwrap
import unittest
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

from harness.errors import LaunchError
from harness.protocol import Assignment, Launch, ModuleRef
from harness.ranks.processes import server
from harness.ranks.processes.fork_server import ForkServerLauncher
from harness.ranks.processes.rank_set import RankSet
from harness.ranks.processes.spawn import SpawnLauncher
from suites.selftest.faults.clean import CleanTestCase

ROOT = str(Path(__file__).resolve().parents[4])
WORLD_SIZE = 4

# A test file that imports numpy, and a run whose server starts before numpy is imported.
NUMERIC = """
    import numpy
    from harness import MultiProcessTestCase

    class Cases(MultiProcessTestCase):
        world_size = 2

        def test(self):
            pass
"""
NUMERIC_RUN = """
    import sys, unittest
    from harness.ranks.processes import choose_launcher

    launcher = choose_launcher.launcher(None)
    launcher.ready("numeric", sys.path)
    first = launcher.server
    run = unittest.main(module="numeric", argv=["run"], exit=False)
    print(f"passed {run.result.wasSuccessful()}, same server {launcher.server is first}")
"""


def request(world_size: int = WORLD_SIZE) -> Launch:
    """Returns a request for ranks that run nothing."""
    return Launch(
        ModuleRef("harness"),
        "None",
        "none",
        world_size,
        "",
        dict(os.environ),
        os.getcwd(),
        [],
        [],
        pooled=True,
    )


def fails_at_the_third(assignment: Assignment, close: Sequence[int]) -> int:
    """Starts ranks that wait for ever, but fails at rank 2 unless the request says otherwise."""
    if assignment.rank == 2 and assignment.launch.method == "none":
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    pid = os.fork()
    if pid == 0:
        os.read(os.pipe()[0], 1)
    return pid


class RefusalTest(CleanTestCase):
    """Ranks that the server cannot start."""

    @contextlib.contextmanager
    def server(self) -> Iterator[socket.socket]:
        """Yields the control socket of a server that starts its ranks by ``fails_at_the_third``."""
        near, far = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            near.close()
            server.Server(far, fails_at_the_third, preload=False).run()
            os._exit(0)
        far.close()
        with near:
            yield near
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_no_more_processes(self) -> None:
        """The launch fails with the reason, its two started ranks are gone, and the next launch works."""
        with self.server() as control:
            said = self.assertRaisesRegex(LaunchError, r"rank 2 of 4 .*Resource temporarily unavailable")
            with contextlib.closing(RankSet(request())) as ranks, said:
                ranks.start(control, request())
            two = request(2)
            with contextlib.closing(RankSet(two)) as ranks:
                ranks.start(control, two)
                self.assertEqual(len(ranks.pids), 2)


class PoolTest(CleanTestCase):
    """A module with a thread pool that ends before each fork."""

    def test_ranks_are_forked(self) -> None:
        """A server that is older than the module is not given up as unsafe to fork."""
        file = Path(self.temporary, "numeric.py")
        file.write_text(textwrap.dedent(NUMERIC))
        self.addCleanup(file.unlink)
        environ = {n: v for n, v in os.environ.items() if not n.endswith("_NUM_THREADS")}
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(NUMERIC_RUN)],
            env={**environ, "PYTHONPATH": f"{self.temporary}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(run.stdout.strip(), "passed True, same server True", run.stderr)


class NoServerTest(CleanTestCase):
    """Launches for which there is no server."""

    def test_no_server(self) -> None:
        """If neither fork nor a new interpreter is possible, the test gets an error with the reason."""
        refused = mock.Mock(side_effect=BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
        for launcher in (ForkServerLauncher(), SpawnLauncher()):
            with (
                self.subTest(launcher.name),
                mock.patch("os.fork", refused),
                mock.patch("subprocess.Popen", refused),
                self.assertRaisesRegex(LaunchError, "Resource temporarily unavailable"),
            ):
                launcher.launch(request())


if __name__ == "__main__":
    unittest.main()
