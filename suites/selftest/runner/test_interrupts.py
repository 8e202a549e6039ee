"""Tests Ctrl-C, SIGTERM and SIGKILL: what is kept, what is reported, and that the run can be resumed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import unittest
from collections.abc import Callable

from harness.outcomes import Status
from harness.runner.interrupts import Interrupts
from suites.selftest.runner import runs
from suites.selftest.runner.runs import PATIENCE_S, Finished, RunnerCase
from suites.selftest.runner.workers.test_workers import gone

HANGING = """
    class T(unittest.TestCase):
        def test_1(self): open("pid", "w").write(str(os.getpid()))
        def test_2(self):
            print("HANGING", file=sys.__stderr__)
            open("hangs", "w").close()
            if not os.path.exists("mended"): threading.Event().wait()
        def test_3(self): pass
    """

HANGING_RANKS = """
    from harness import MultiProcessTestCase
    def wait_for_ever():
        print("HANGING", file=sys.__stderr__); threading.Event().wait()
    class T(MultiProcessTestCase):
        world_size = 2
        def setUp(self):
            super().setUp()
            self._spawn_processes()
        def test_1(self):
            wait_for_ever()
    """


class InterruptTest(RunnerCase):
    """Signals to the controller."""

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Starts a run whose output can be read, so that it can be signalled at a certain line."""
        process = subprocess.Popen(
            self.command(*argv),
            cwd=self.directory,
            env=self.environ(PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(process.stdout.close)  # type: ignore[union-attr]  # it is a pipe
        self.addCleanup(process.kill)
        return process

    def interrupt(self, *signals: int) -> Finished:
        """Starts a run whose second test hangs, signals it there, and waits for its end."""
        self.write("test_h", HANGING)
        process = self.start("test_h", "-s", "--jobs", "1", "-v")
        out = read_until(process, lambda line: "HANGING" in line)
        for number in signals:
            process.send_signal(number)
        rest, _ = process.communicate(timeout=PATIENCE_S)
        return Finished(process.returncode, out + rest, "", tuple(runs.journal_records(self.directory)))

    def test_once(self) -> None:
        """A signal ends the run with stacks, reports and exit code 130, and no process is left."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                run = self.interrupt(number)
                self.assertEqual(run.code, 130, run.out)
                self.assertIn("in test_2", run.of("test_2").details)
                self.assertEqual(run.of("test_2").status.value, "ended")
                path = runs.journal_path(self.directory)
                assert path is not None
                self.assertTrue(path.with_name("junit.xml").exists())
                self.assertTrue(path.with_name("results.jsonl").exists())
                self.assertTrue(gone(int((self.directory / "pid").read_text())))

    def test_ranks_are_named(self) -> None:
        """The record of a test with ranks says what each of them was doing, and in which rank mode."""
        self.write("test_h", HANGING_RANKS)
        process = self.start("test_h", "-s", "-v")
        for _ in range(2):  # each rank says so
            read_until(process, lambda line: "HANGING" in line)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
        record = Finished(process.returncode, out, "", tuple(runs.journal_records(self.directory))).of(
            "test_1"
        )
        self.assertEqual((record.status, record.mode, record.world_size), (Status.ENDED, "fresh", 2))
        self.assertTrue(record.details.startswith("test_h.T.test_1: ended (world size 2)"), record.details)
        self.assertIn("ranks 0, 1 are at test_h.py:5 in wait_for_ever", record.details)
        self.assertIn("wait_for_ever", record.ranks[1].stack)

    def test_resume(self) -> None:
        """--resume runs exactly what had not finished, with the options of the run before."""
        self.interrupt(signal.SIGINT)
        (self.directory / "mended").touch()
        run = self.run_tests("--resume")
        self.assertEqual(run.code, 0, run.out + run.err)
        attempts = [(r.id[-6:], r.status.value) for r in run.records]
        self.assertEqual(
            attempts, [("test_1", "passed"), ("test_2", "ended"), ("test_2", "passed"), ("test_3", "passed")]
        )
        self.assertIn("3 passed, 0 failed", run.out)

    def test_resume_without_a_test_that_is_owed(self) -> None:
        """If a test of the run is gone, the run fails; a module that does not import stands for its tests."""
        self.interrupt(signal.SIGINT)
        (self.directory / "mended").touch()
        self.write("test_h", HANGING.replace("test_3", "test_4"))
        run = self.run_tests("--resume")
        self.assertEqual((run.code, run.of("test_2").status.value), (3, "passed"), run.out + run.err)
        self.assertIn("1 not run", run.out)
        self.write("test_h", "import nosuchmodule" + HANGING)
        run = self.run_tests("--resume")
        self.assertEqual((run.code, run.of("test_h").status.value), (1, "error"), run.out + run.err)

    def test_twice(self) -> None:
        """A second signal ends everything at once and leaves nothing."""
        self.write("test_h", HANGING)
        process = self.start("test_h", "-s", "--jobs", "1", "-v")
        read_until(process, lambda line: "HANGING" in line)
        process.send_signal(signal.SIGINT)
        read_until(process, lambda line: "once more" in line)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130)
        self.assertTrue(gone(int((self.directory / "pid").read_text())))

    def test_a_run_that_is_still_going(self) -> None:
        """No other run writes to a run's directory until its controller is dead."""
        self.write(
            "test_h",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    if os.path.exists("mended"): return
                    code = "import threading; threading.Event().wait()"
                    sleeper = subprocess.Popen(
                        [sys.executable, "-c", code], start_new_session=True, close_fds=False
                    )
                    print("PIDS", os.getppid(), sleeper.pid)
                    sleeper.wait()
            """,
        )
        process = self.start("test_h", "-s", "--report-dir", "reports")
        line = read_until(process, lambda line: "PIDS" in line).splitlines()[-1]
        zygote, sleeper = map(int, line.split()[-2:])
        for argv in (("--resume",), ("test_h", "--report-dir", "reports")):
            refused = self.run_tests(*argv)
            self.assertEqual((refused.code, refused.out), (2, ""))
            self.assertIn("is still going", refused.err)
            self.assertEqual(refused.err.count("\n"), 1, refused.err)
        os.kill(zygote, signal.SIGSTOP)  # otherwise it would end the sleeper when the controller is dead
        self.addCleanup(os.kill, zygote, signal.SIGCONT)
        process.kill()
        process.wait()
        (self.directory / "mended").touch()
        resumed = self.run_tests("--resume")
        self.assertEqual((resumed.code, resumed.statuses), (0, {"test_1": "passed"}), resumed.err)
        os.kill(sleeper, 0)

    def test_a_killed_controller_leaves_nothing(self) -> None:
        """A killed controller leaves neither zygote nor worker nor processes that a test started."""
        self.write(
            "test_h",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    code = "import threading; threading.Event().wait()"
                    sleeper = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
                    print("PIDS", os.getppid(), os.getpid(), sleeper.pid)
                    sleeper.wait()
            """,
        )
        process = self.start("test_h", "-s")
        line = read_until(process, lambda line: "PIDS" in line).splitlines()[-1]
        process.kill()
        process.wait()
        for pid in line.split()[-3:]:
            self.assertTrue(gone(int(pid)), pid)

    def test_a_killed_controller_lets_orphans_clean_up(self) -> None:
        """Processes of a killed controller's workers get time to clean up."""
        (self.directory / "scratch").touch()
        self.write(
            "test_h",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    code = (
                        "import os, sys, threading; sys.stdin.read(); "
                        "threading.Event().wait(0.2); os.unlink('scratch')"
                    )
                    tidy = subprocess.Popen(
                        [sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True
                    )
                    print("PIDS", tidy.pid)
                    tidy.wait()
            """,
        )
        process = self.start("test_h", "-s")
        line = read_until(process, lambda line: "PIDS" in line).splitlines()[-1]
        process.kill()
        process.wait()
        self.assertTrue(gone(int(line.split()[-1])))
        self.assertFalse((self.directory / "scratch").exists())

    def test_what_was_ignored(self) -> None:
        """SIGHUP and SIGINT stay ignored if they were (``nohup``, ``&``); SIGTERM interrupts in any case."""
        for number, handler, taken in (
            (signal.SIGHUP, signal.SIG_IGN, False),
            (signal.SIGHUP, signal.SIG_DFL, True),
            (signal.SIGINT, signal.SIG_IGN, False),
            (signal.SIGINT, signal.default_int_handler, True),
            (signal.SIGTERM, signal.SIG_IGN, True),
        ):
            with self.subTest(number=number, handler=handler):
                self.addCleanup(signal.signal, number, signal.signal(number, handler))
                with Interrupts():
                    self.assertEqual(signal.getsignal(number) is not handler, taken)
                self.assertIs(signal.getsignal(number), handler)

    def test_what_was_blocked(self) -> None:
        """Signals that were blocked interrupt a run, and are blocked again after it."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
        self.addCleanup(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        with Interrupts() as interrupts:
            self.assertEqual(signal.pthread_sigmask(signal.SIG_BLOCK, []), before | {signal.SIGUSR1})
            signal.raise_signal(signal.SIGTERM)
            self.assertEqual(interrupts.count, 1)
        self.assertIn(signal.SIGTERM, signal.pthread_sigmask(signal.SIG_BLOCK, []))


def read_until(process: subprocess.Popen[str], found: Callable[[str], bool]) -> str:
    """Reads a run's output up to a line; raises AssertionError at its end."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if found(line):
            return text
    raise AssertionError(f"the run ended early:\n{text}")


class KillTest(RunnerCase):
    """SIGKILL to the controller at moments that a seeded generator picks by the run's progress."""

    TESTS = 60
    KILLS = 20

    def test_nothing_is_lost(self) -> None:
        """Announced tests are in the journal, no finished test runs again, and all complete in the end."""
        methods = "\n".join(
            f"    def test_{i:03}(self): note({i}); threading.Event().wait(0.002)" for i in range(self.TESTS)
        )
        note = (
            "def note(i):\n"
            "    with open('ran-' + os.environ['ROUND'], 'a') as f: f.write(f'{i} {os.getpid()}\\n')\n"
        )
        (self.directory / "test_k.py").write_text(
            f"import os, threading, unittest\n{note}class T(unittest.TestCase):\n{methods}\n"
        )
        moments = random.Random(20)
        done: set[str] = set()
        for number in range(self.KILLS):
            argv = ["--resume"] if runs.journal_path(self.directory) else ["test_k", "-v", "--jobs", "2"]
            announced = self.run_and_kill(argv, str(number), moments.randrange(6))
            self.assertFalse(self.ran(number) & done, "a finished test ran again")
            done |= {r.id for r in runs.journal_records(self.directory)}
            self.assertLessEqual(announced, done)
        (self.directory / "ran-last").touch()
        last = self.run_tests("--resume", ROUND="last")
        self.assertEqual(last.code, 0, last.out + last.err)
        self.assertEqual(sorted(r.id for r in last.records), sorted({r.id for r in last.records}))
        self.assertEqual(len(last.records), self.TESTS)
        self.assertIn(f"{self.TESTS} passed, 0 failed", last.out)
        path = runs.journal_path(self.directory)
        assert path is not None
        results = [json.loads(line) for line in path.with_name("results.jsonl").read_text().splitlines()]
        self.assertEqual(sum(r.get("kind") == "test" for r in results), self.TESTS)
        self.assertEqual(path.with_name("junit.xml").read_text().count("<testcase"), self.TESTS)

    def run_and_kill(self, argv: list[str], number: str, after: int) -> set[str]:
        """Runs until ``after`` tests are announced or the run ends, kills the controller, and returns the
        ids.

        The ids are those that were announced. Waits until the workers are gone too.
        """
        process = subprocess.Popen(
            self.command(*argv),
            cwd=self.directory,
            env=self.environ(ROUND=number, PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines += [line] if " ok " in line else []
            if len(lines) >= after and line.startswith(("[", "60 tests")):
                break
        process.kill()
        lines += [line for line in process.stdout if " ok " in line and line.endswith("\n")]
        process.stdout.close()
        process.wait()
        for pid in self.pids(number):
            self.assertTrue(gone(pid))
        return {word for line in lines for word in line.split() if word.startswith("test_k.T.")}

    def _noted(self, number: str) -> list[list[str]]:
        path = self.directory / f"ran-{number}"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def pids(self, number: str) -> set[int]:
        """Returns the processes that ran tests in a round."""
        return {int(pid) for _, pid in self._noted(number)}

    def ran(self, number: int) -> set[str]:
        """Returns the tests that ran in a round."""
        return {f"test_k.T.test_{int(i):03}" for i, _ in self._noted(str(number))}


if __name__ == "__main__":
    unittest.main()
