"""Tests servers that are killed, stuck in an import or unfit to fork: each is reported and replaced."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from types import ModuleType

from harness import Status
from harness.errors import ServerLost
from harness.ranks.processes import choose_launcher, pool
from harness.ranks.processes.launcher import ServerLauncher
from harness.system import closing
from suites.selftest.faults import ends, late_imports, orphans
from suites.selftest.faults.base import ANNOUNCE, FaultyCase
from suites.selftest.faults.processes import Announced, still_there
from suites.selftest.faults.rows import PATIENT, OnForkedInterpreters, OnForkServer, OnSpawn, Played, Rows

ROOT = str(Path(__file__).resolve().parents[4])
# Seconds for the kernel to end the ranks of a server that is gone.
GONE_S = 30.0


class KilledServerRows(Rows):
    """A server that is killed under a test."""

    def loses(self, case: type[FaultyCase], method: str, how: str, **environ: str) -> None:
        """Checks that the verdict is an error with the reason, the ranks are gone, and the next
        test passes.
        """
        with Announced(self.temporary) as announced:
            played = self.play(case, method, **{ANNOUNCE: announced.path, **environ})
            self.assertEqual(played.verdict, "ERROR")
            for words in (ServerLost.__name__, "server", how, "the next test gets a new one", method):
                self.assertIn(words, played.text)
            self.assertEqual(still_there(announced.read(2), GONE_S), [])
        after = self.play(ends.Ends, "test_passes")
        self.assertEqual(after.verdict, "pass", after.text)

    def test_killed(self) -> None:
        """A server that is killed, perhaps for lack of memory, is reported and replaced."""
        self.loses(orphans.LosesServer, "test_wait", "signal SIGKILL")


class LostServerRows(KilledServerRows):
    """A server that dies or stops under a test or between tests."""

    deadline = "0.4"

    def test_stopped(self) -> None:
        """A server that is stopped under a test is killed at the test's deadline, when it is needed."""
        self.loses(orphans.StopsServer, "test_wait", "stopped (as by SIGSTOP)", HARNESS_TIMEOUT=self.deadline)

    def test_stopped_while_ranks_exit(self) -> None:
        """A server that is stopped and so tells of no exit is killed, and no rank is said to hang."""
        self.loses(orphans.StopsServer, "test_pass", "stopped (as by SIGSTOP)", HARNESS_EXIT_GRACE="0.3")

    def test_stopped_between_tests(self) -> None:
        """A server that is stopped when no test needs it is replaced by the next test."""
        for _ in range(2):
            after = self.play(ends.Ends, "test_passes")
            self.assertEqual(after.verdict, "pass", after.text)
            made = choose_launcher.launchers()[self.launcher]
            assert isinstance(made, ServerLauncher) and made.server is not None
            os.kill(made.server.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, made.server.pid, os.WSTOPPED | os.WNOWAIT)

    def test_stopped_under_kept_ranks(self) -> None:
        """A server that is stopped when kept ranks are given up is killed, and they end with it."""
        played = self.play(ends.Ends, "test_passes", HARNESS_RANKS="pooled")
        self.addCleanup(pool.retire_pool)
        made = choose_launcher.launchers()[self.launcher]
        assert isinstance(made, ServerLauncher) and made.server is not None
        os.kill(made.server.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, made.server.pid, os.WSTOPPED | os.WNOWAIT)
        pool.retire_pool()
        self.assertFalse(made.server.alive())
        self.assertEqual(still_there([each.pid or 0 for each in played.outcome.ranks], GONE_S), [])

    def test_terminated(self) -> None:
        """If a server ends by SIGTERM, its ranks end too, and the test has not passed."""
        with Announced(self.temporary) as announced:
            played = self.play(orphans.LosesServerPolitely, "test_wait", **{ANNOUNCE: announced.path})
            self.assertEqual(played.verdict, "ERROR")
            self.assertEqual(still_there(announced.read(2), GONE_S), [])
        after = self.play(ends.Ends, "test_passes")
        self.assertEqual(after.verdict, "pass", after.text)

    def test_killed_by_its_rank(self) -> None:
        """A test whose rank kills its parent process gets the error of a lost server."""
        self.loses(orphans.KillsServer, "test_kill", "signal SIGKILL")

    def test_killed_between_tests(self) -> None:
        """A server that is killed between two tests fails neither of them."""
        self.play(ends.Ends, "test_passes")
        launcher = choose_launcher.launcher(self.launcher)
        assert isinstance(launcher, ServerLauncher), launcher
        server = launcher.server
        assert server is not None
        os.kill(server.pid, signal.SIGKILL)
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        played = self.play(ends.Ends, "test_passes")
        self.assertEqual(played.verdict, "pass", played.text)


class ImportRows(Rows):
    """A module that imports in the parent and not in ranks."""

    server_imports = True  # what it has imported once, it keeps

    def setUp(self) -> None:
        super().setUp()
        if self.server_imports:
            closing.close_all()
            self.addCleanup(closing.close_all)
        self.play(ends.Ends, "test_passes")  # a server that does not have the module from its parent
        self.module = importlib.import_module("suites.selftest.faults.unimportable")
        self.addCleanup(_forget, self.module)

    def with_fault(self, fault: str, method: str = "test_anything", **environ: str) -> Played:
        """Runs a test of the module with a fault in its import."""
        settings = {self.module.VARIABLE: fault, **environ}
        return self.play(self.module.Unimportable, method, **settings)

    def goes_on(self) -> None:
        """Checks that the next test of another module passes."""
        after = self.play(ends.Ends, "test_passes")
        self.assertEqual(after.verdict, "pass", after.text)

    def test_raises(self) -> None:
        """An import that raises is an error with the import's own traceback."""
        played = self.with_fault("raise")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("ImportError: this module does not like ranks", played.text)
        self.assertIn("unimportable.py", played.text)
        self.goes_on()

    def test_raises_and_is_mended(self) -> None:
        """An import that failed once is tried again."""
        self.with_fault("raise")
        played = self.with_fault("")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_exits(self) -> None:
        """An import that ends the process with code 0 is an error, because no test has run."""
        played = self.with_fault("exit")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("SystemExit", played.text)
        self.goes_on()

    def test_hangs(self) -> None:
        """An import that hangs is an error at the test's deadline that names the module."""
        played = self.with_fault("hang", HARNESS_TIMEOUT="1.5")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("unimportable", played.text)
        self.goes_on()

    def test_starts_a_thread(self) -> None:
        """If the import starts a thread, ranks import the module themselves instead of being forked."""
        played = self.with_fault("thread")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual([o.output for o in played.outcome.ranks], ["2\n", "2\n"])
        self.goes_on()

    def test_starts_a_thread_on_kept_ranks(self) -> None:
        """A thread that the import starts in a rank is not blamed on the test, so that the ranks are kept."""
        self.addCleanup(pool.retire_pool)
        kept = {"HARNESS_RANKS": "pooled", "HARNESS_STRICT": "1"}
        first, second = (self.with_fault("thread", **kept) for _ in range(2))
        self.assertEqual((first.verdict, second.verdict), ("pass", "pass"), first.text + second.text)
        self.assertEqual(*([o.pid for o in played.outcome.ranks] for played in (first, second)))

    def test_sets_a_filter(self) -> None:
        """A warning filter that a module's import sets holds for all of its tests on kept ranks."""
        self.addCleanup(pool.retire_pool)
        for _ in range(2):
            played = self.with_fault("filter", "test_filter", HARNESS_RANKS="pooled")
            self.assertEqual(played.verdict, "pass", played.text)

    def test_starts_a_thread_and_meets(self) -> None:
        """A server that cannot be used leaves the parent's rendezvous file alone."""
        played = self.with_fault("thread", "test_meets")
        self.assertEqual(played.verdict, "pass", played.text)


class LateImportRows(Rows):
    """What the harness imports for a test."""

    def test_what_the_harness_uses(self) -> None:
        """What a requirement makes the harness import is there before the test begins, on kept ranks too."""
        self.addCleanup(pool.retire_pool)
        for ranks in ("fresh", "pooled"):
            closing.close_all()
            for method in ("test_not_needed", "test_needed"):
                played = self.play(late_imports.LateImports, method, HARNESS_RANKS=ranks)
                self.assertEqual(played.verdict, "pass", played.text)


class BusyParentRows(Rows):
    """A parent that must not be forked."""

    def test_thread(self) -> None:
        """If the parent runs a thread, ranks start from a fresh server."""
        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        closing.close_all()
        thread.start()
        try:
            played = self.play(ends.Ends, "test_passes")
        finally:
            closing.close_all()
            done.set()
            thread.join()
        self.assertEqual(played.outcome.status, Status.PASSED, played.text)

    def test_open_mp(self) -> None:
        """If thread pools of OpenMP and autograd live in the parent, ranks can use theirs."""
        run = subprocess.run(
            [sys.executable, "-m", "unittest", "suites.selftest.faults.openmp"],
            env={**os.environ, **PATIENT, "HARNESS_LAUNCHER": self.launcher},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Ran 1 test", run.stderr)


class LostServersOnForkServer(LostServerRows, OnForkServer):
    """Runs the tests on the fork server."""


class LostServersOnSpawn(LostServerRows, OnForkedInterpreters):
    """Runs the tests on the server of the spawn launcher, with ranks that are forks of one interpreter."""

    deadline = "2"  # a rank imports the module itself


class KilledServersOnSpawn(KilledServerRows, OnSpawn):
    """Runs the test on new interpreters, whose end with their server is not that of a fork."""


class ImportsOnForkServer(ImportRows, OnForkServer):
    """Runs the tests on the fork server."""

    def test_stops(self) -> None:
        """A server that is stopped while it imports the module is replaced, and the test runs."""
        played = self.with_fault("stop")
        self.assertEqual(played.verdict, "pass", played.text)


class ImportsOnSpawn(ImportRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter, which has what the module imports and not the module."""

    imports = ("torch.distributed",)
    server_imports = False


class LateImportsOnForkServer(LateImportRows, OnForkServer):
    """Runs the test on the fork server."""


class LateImportsOnSpawn(LateImportRows, OnSpawn):
    """Runs the test on new interpreters."""


class BusyParentsOnForkServer(BusyParentRows, OnForkServer):
    """Runs the tests on the fork server."""


class BusyParentsOnSpawn(BusyParentRows, OnSpawn):
    """Runs the tests on new interpreters."""


def _forget(module: ModuleType) -> None:
    del sys.modules[module.__name__]


if __name__ == "__main__":
    unittest.main()
