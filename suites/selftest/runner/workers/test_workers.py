"""Tests what the processes of a run survive, and that they leave nothing behind."""

from __future__ import annotations

import unittest

from harness.system import posix
from suites.selftest.runner.runs import PATIENCE_S, RunnerCase


def gone(pid: int) -> bool:
    """Returns True once a process has ended, and False if it has not after a long time."""
    return not posix.still_running([pid], PATIENCE_S)


class ZygoteTest(RunnerCase):
    """The zygote, and modules that harm it."""

    def test_a_lost_zygote_is_replaced(self) -> None:
        """A lost zygote is reported and replaced, and the test that ran then runs again."""
        self.write(
            "test_z",
            """
            class T(unittest.TestCase):
                def test_1(self): pass
                def test_2(self):
                    if not os.path.exists("done"):
                        open("done", "w").close()
                        os.kill(os.getppid(), signal.SIGKILL)
                        threading.Event().wait()
                def test_3(self): pass
            """,
        )
        run = self.run_tests("test_z")
        self.assertEqual(set(run.statuses.values()), {"passed"})
        self.assertEqual(len(run.records), 3)
        self.assertEqual(run.code, 0)
        self.assertIn("the process that forks workers died: signal SIGKILL", run.out)

    def test_a_test_that_always_kills_the_zygote(self) -> None:
        """A test that kills the zygote more than once is an error and does not run for ever."""
        self.write(
            "test_z",
            """
            class T(unittest.TestCase):
                def test_1(self): os.kill(os.getppid(), signal.SIGKILL); threading.Event().wait()
                def test_2(self): pass
            """,
        )
        run = self.run_tests("test_z")
        self.assertEqual(run.statuses, {"test_1": "error", "test_2": "passed"})
        self.assertIn("more than once", run.of("test_1").reason)

    def test_modules_that_harm_their_importer(self) -> None:
        """A module whose import ends the process is an error, and one that leaves a thread still runs."""
        self.write("test_exit", "os._exit(9)")
        self.write("test_segv", "ctypes.string_at(0)")
        self.write(
            "test_thread",
            """
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            class T(unittest.TestCase):
                def test_thread(self): self.assertEqual(threading.active_count(), 2)
            """,
        )
        self.write("test_good", "class T(unittest.TestCase):\n    def test_good(self): pass\n")
        run = self.run_tests(".")
        expected = {
            "test_exit": "error",
            "test_segv": "error",
            "test_thread": "passed",
            "test_good": "passed",
        }
        self.assertEqual(run.statuses, expected, run.out)
        self.assertIn("exit code 9", run.of("test_exit").details)
        self.assertIn("signal SIGSEGV", run.of("test_segv").details)
        self.assertIn("test_thread leaves threads", run.out)

    def test_module_level_fixtures(self) -> None:
        """A failing setUpModule is every test's error, and a failing tearDownModule the last one's."""
        self.write(
            "test_up",
            """
            def setUpModule(): raise OSError("no module")
            class A(unittest.TestCase):
                def test_a(self): pass
            class B(unittest.TestCase):
                def test_b(self): pass
            """,
        )
        self.write(
            "test_down",
            """
            ups = 0
            def setUpModule(): global ups; ups += 1
            def tearDownModule(): raise OSError(f"no end after {ups}")
            class A(unittest.TestCase):
                def test_c(self): self.assertEqual(ups, 1)
            class B(unittest.TestCase):
                def test_d(self): self.assertEqual(ups, 1)
            """,
        )
        run = self.run_tests("test_up", "test_down", "--jobs", "1")
        expected = {"test_a": "error", "test_b": "error", "test_c": "passed", "test_d": "error"}
        self.assertEqual(run.statuses, expected, run.out)
        self.assertIn("setUpModule", run.of("test_b").reason)
        self.assertIn("OSError: no end after 1", run.of("test_d").reason)

    def test_duplicate_ids(self) -> None:
        """Different tests with one id are an error, and an imported class is one test."""
        self.write(
            "test_twice",
            """
            def make(x):
                class T(unittest.TestCase):
                    def test_same(self): self.assertTrue(x)
                return T
            A, B = make(True), make(False)
            """,
        )
        self.write("test_one", "class T(unittest.TestCase):\n    def test_imported(self): pass\n")
        self.write("test_two", "from test_one import T\n")
        run = self.run_tests(".")
        self.assertEqual(run.statuses, {"test_same": "error", "test_imported": "passed"})
        self.assertIn("have this id", run.of("test_same").reason)
        self.assertEqual(len(run.records), 2)
        run = self.run_tests(".", "--reruns", "1")
        self.assertEqual([r.ok for r in run.records if r.id.endswith("test_same")], [False, False])
        self.assertEqual(run.code, 1, "none of them is run in place of the others")

    def test_ids_without_a_module(self) -> None:
        """Functions of one name in two modules are an error if both modules run."""
        body = "def test_free(): assert {}\ndef load_tests(*_): return [unittest.FunctionTestCase(test_free)]"
        self.write("test_a", body.format(True))
        self.write("test_b", body.format(False))
        run = self.run_tests(".")
        self.assertEqual((run.code, run.statuses), (1, {"test_free": "error"}), run.out + run.err)
        self.assertIn("several tests of test_a and test_b have this id", run.of("test_free").reason)
        self.assertEqual(self.run_tests("test_a").statuses, {"test_free": "passed"})


class DeadlineTest(RunnerCase):
    """Tests whose time is up."""

    def test_calls_that_a_signal_ends(self) -> None:
        """A test has timed out even if the request for its stack ends its system call and it then passes."""
        self.write(
            "test_s",
            """
            class T(unittest.TestCase):
                def test_poll(self): ctypes.PyDLL(None).poll(None, 0, 3_600_000)
                def test_sleep(self): ctypes.CDLL(None).sleep(3600)
                def test_sleep_checked(self): self.assertEqual(ctypes.CDLL(None).sleep(3600), 0)
                def test_sleep_skipped(self): self.skipTest(str(ctypes.CDLL(None).sleep(3600)))
                def test_then_next(self): pass
            """,
        )
        run = self.run_tests("test_s", "--timeout", "1", "--jobs", "1")
        expected = dict.fromkeys(("test_poll", "test_sleep", "test_sleep_checked"), "timed out")
        expected |= {"test_sleep_skipped": "timed out", "test_then_next": "passed"}
        self.assertEqual(run.statuses, expected, run.out)
        self.assertIn("in test_sleep", run.of("test_sleep").details)
        self.assertIn("Its own report came too late: passed", run.of("test_poll").details)

    def test_a_run_that_is_stopped(self) -> None:
        """A test that passes only because the run is being stopped counts as not run."""
        self.write(
            "test_a",
            """
            class T(unittest.TestCase):
                def test_fails(self):
                    while not os.path.exists("sleeping"): threading.Event().wait(0.01)
                    self.fail("first")
            """,
        )
        self.write(
            "test_b",
            """
            class T(unittest.TestCase):
                def test_sleeps(self): open("sleeping", "w").close(); ctypes.CDLL(None).sleep(3600)
            """,
        )
        run = self.run_tests("test_a", "test_b", "--failfast", "--jobs", "2")
        self.assertEqual(run.statuses, {"test_fails": "failed"}, run.out)


class LeftoverTest(RunnerCase):
    """Processes that tests leave behind."""

    def test_children_and_daemons_are_ended(self) -> None:
        """Children and daemons of a test end with its worker, also after a crash."""
        self.write(
            "test_c",
            """
            sleeper = [sys.executable, "-c", "import threading; threading.Event().wait()"]
            class T(unittest.TestCase):
                def test_child(self):
                    for i, session in enumerate((False, True)):
                        process = subprocess.Popen(sleeper, start_new_session=session)
                        open(f"pid{i}", "w").write(str(process.pid))
                    os._exit(1)
                def test_hang(self):
                    process = subprocess.Popen(sleeper, start_new_session=True)
                    open("pid2", "w").write(str(process.pid))
                    process.wait()
            """,
        )
        run = self.run_tests("test_c", "--timeout", "2")
        self.assertEqual(run.statuses, {"test_child": "crashed", "test_hang": "timed out"})
        for i in range(3):
            self.assertTrue(gone(int((self.directory / f"pid{i}").read_text())))

    def test_a_test_that_closes_every_descriptor(self) -> None:
        """A test that closes every descriptor harms at most itself."""
        self.write(
            "test_d",
            """
            class T(unittest.TestCase):
                def test_low(self): os.closerange(3, 100)
                def test_all(self): os.closerange(0, 1000)
                def test_next(self): print("still here"); self.fail("look")
            """,
        )
        run = self.run_tests("test_d")
        self.assertEqual(run.statuses, {"test_low": "passed", "test_all": "crashed", "test_next": "failed"})
        self.assertEqual(run.of("test_next").output, "still here\n")

    def test_a_test_that_closes_standard_output(self) -> None:
        """After a test that closes descriptor 1, later tests keep their own standard error."""
        self.write(
            "test_o",
            """
            class T(unittest.TestCase):
                def test_1(self): os.close(1); assert os.open("taken", os.O_WRONLY | os.O_CREAT) == 1
                def test_2(self): print("second", file=sys.stderr); self.fail("look")
                def test_3(self): print("third", file=sys.stderr); self.fail("look")
            """,
        )
        run = self.run_tests("test_o")
        self.assertEqual(run.statuses, {"test_1": "passed", "test_2": "failed", "test_3": "failed"})
        outputs = [run.of(name).output for name in ("test_2", "test_3")]
        self.assertEqual(outputs, ["second\n", "third\n"])
        self.assertEqual((self.directory / "taken").read_bytes(), b"")

    def test_a_class_that_leaves_the_clock_patched(self) -> None:
        """A class that leaves the clock patched does not disturb the worker."""
        self.write(
            "test_t",
            """
            from unittest import mock
            class T(unittest.TestCase):
                @classmethod
                def setUpClass(cls):
                    mock.patch("time.time").start()
                    mock.patch("time.monotonic").start()
                def test_1(self): pass
                def test_2(self): self.fail("look")
            """,
        )
        run = self.run_tests("test_t")
        self.assertEqual(run.statuses, {"test_1": "passed", "test_2": "failed"}, run.out)

    def test_what_comes_out_of_unittest(self) -> None:
        """A fixture that exits and a sub-test whose repr raises are errors of their tests."""
        self.write(
            "test_u",
            """
            class Odd:
                def __repr__(self): raise ValueError("no words")
            class A(unittest.TestCase):
                @classmethod
                def setUpClass(cls): sys.exit("no class")
                def test_1(self): pass
                def test_2(self): pass
            class B(unittest.TestCase):
                def test_3(self):
                    with self.subTest(odd=Odd()): self.fail("look")
                def test_4(self): pass
            """,
        )
        run = self.run_tests("test_u")
        expected = {"test_1": "error", "test_2": "error", "test_3": "error", "test_4": "passed"}
        self.assertEqual(run.statuses, expected, run.out)
        self.assertEqual(run.of("test_2").reason, "SystemExit: no class")
        self.assertIn("ValueError: no words", run.of("test_3").details)

    def test_garbage_on_the_workers_own_pipe(self) -> None:
        """A worker that writes garbage to its pipe is ended, and the rest runs in another one."""
        self.write(
            "test_g",
            """
            import socket
            class T(unittest.TestCase):
                def test_1(self):
                    for fd in range(100, 300):
                        try: socket.socket(fileno=os.dup(fd)).sendall(b"\\xff" * 100)
                        except OSError: pass
                def test_2(self): pass
            """,
        )
        run = self.run_tests("test_g")
        self.assertEqual(run.statuses, {"test_1": "error", "test_2": "passed"})


if __name__ == "__main__":
    unittest.main()
