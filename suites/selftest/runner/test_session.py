"""Tests what a run makes of tests that pass, fail, skip, crash or hang, in real processes."""

from __future__ import annotations

import shlex
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from harness.runner import session
from harness.runner.scheduling.plan import Plan, Policy
from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.timings import Timings
from harness.targets.device_set import DeviceSet
from suites.selftest.runner import runs
from suites.selftest.runner.runs import Finished, RunnerCase

EVERYTHING = """
    class Outcomes(unittest.TestCase):
        def test_pass(self): pass
        def test_fail(self): print("printed by fail"); self.assertEqual(1, 2)
        def test_error(self): raise RuntimeError("broken")
        def test_skip(self): self.skipTest("no reason")
        def test_exit(self): os._exit(0)
        def test_segv(self): ctypes.string_at(0)
        def test_sysexit(self): sys.exit(7)
        def test_interrupt(self): raise KeyboardInterrupt
        @unittest.expectedFailure
        def test_xfail(self): self.fail("as expected")
        @unittest.expectedFailure
        def test_xpass(self): pass
        def test_subtests(self):
            for i in range(4):
                with self.subTest("part", i=i):
                    if i == 2: self.fail("second")
                    if i == 3: self.skipTest("third")
        def test_hang(self): print("before the hang"); threading.Event().wait()
        def test_fork_that_returns(self):
            if os.fork() == 0: return
            os.wait()
        def test_flood(self):
            for i in range(30_000): print("x" * 99)
            print("the end"); self.fail("after the flood")

    class BadSetUpClass(unittest.TestCase):
        @classmethod
        def setUpClass(cls): raise ValueError("no class")
        def test_b1(self): pass
        def test_b2(self): pass

    class SkippingSetUpClass(unittest.TestCase):
        @classmethod
        def setUpClass(cls): raise unittest.SkipTest("no such machine")
        def test_s1(self): pass
        def test_s2(self): pass

    class BadTearDownClass(unittest.TestCase):
        @classmethod
        def tearDownClass(cls): raise ValueError("no end")
        def test_t1(self): pass
        def test_t2(self): pass

    class HangingTearDownClass(unittest.TestCase):
        @classmethod
        def tearDownClass(cls): threading.Event().wait()
        def test_h1(self): pass

    @unittest.skip("whole class")
    class Skipped(unittest.TestCase):
        def test_c1(self): pass
    """


class OutcomeTest(unittest.TestCase):
    """One run over everything that a test can do; each test looks at a part of its results."""

    run_: Finished

    @classmethod
    def setUpClass(cls) -> None:
        """Runs all the modules once."""
        directory = runs.new_directory(cls)
        runs.write_module(directory, "test_everything", EVERYTHING)
        runs.write_module(directory, "test_broken", "raise ImportError('not today')")
        runs.write_module(directory, "test_skipped", "raise unittest.SkipTest('not here')")
        cls.run_ = runs.run_tests(directory, ".", "--timeout", "1", "--jobs", "2")

    def test_statuses(self) -> None:
        """Every test has the status of what it did, and a crash costs only the test that crashed."""
        self.assertEqual(
            self.run_.statuses,
            {
                "test_pass": "passed",
                "test_fail": "failed",
                "test_error": "error",
                "test_skip": "skipped",
                "test_exit": "crashed",
                "test_segv": "crashed",
                "test_sysexit": "error",
                "test_interrupt": "error",
                "test_xfail": "expected failure",
                "test_xpass": "unexpected success",
                "test_subtests": "failed",
                "test_hang": "timed out",
                "test_fork_that_returns": "passed",
                "test_flood": "failed",
                "test_b1": "error",
                "test_b2": "error",
                "test_s1": "skipped",
                "test_s2": "skipped",
                "test_t1": "passed",
                "test_t2": "error",
                "test_h1": "timed out",
                "test_c1": "skipped",
                "test_broken": "error",
                "test_skipped": "skipped",
            },
        )

    def test_exit_code_and_last_line(self) -> None:
        """The exit code says that some failed, and the counts in the last line add up."""
        self.assertEqual(self.run_.code, 1, self.run_.err)
        self.assertTrue(self.run_.out.endswith("\n4 passed, 15 failed, 5 skipped\n"), self.run_.out[-200:])

    def test_each_test_once(self) -> None:
        """No test is run or reported twice."""
        ids = [record.id for record in self.run_.records]
        self.assertEqual(len(ids), len(set(ids)))

    def test_output_of_a_failing_test_only(self) -> None:
        """A test's output is in its record only if the test did not pass."""
        self.assertEqual(self.run_.of("test_fail").output, "printed by fail\n")
        self.assertEqual(self.run_.of("test_error").output, "")

    def test_flood_is_bounded(self) -> None:
        """Of three megabytes of output, the beginning and the end are kept."""
        output = self.run_.of("test_flood").output
        self.assertLess(len(output), 300_000)
        self.assertTrue(output.startswith("xxx"))
        self.assertIn("bytes left out", output)
        self.assertTrue(output.endswith("the end\n"))

    def test_details_begin_at_the_test(self) -> None:
        """A traceback has the test's frames, without those of unittest and the harness."""
        details = self.run_.of("test_error").details
        self.assertIn("in test_error", details)
        self.assertTrue(details.endswith("RuntimeError: broken"))
        for foreign in ("unittest/case.py", "harness/runner"):
            self.assertNotIn(foreign, details)

    def test_line_of_the_failure(self) -> None:
        """A failure has the line that failed, for annotations."""
        record = self.run_.of("test_fail")
        line = Path(record.file).read_text().splitlines()[record.line - 1]
        self.assertIn("self.assertEqual(1, 2)", line)

    def test_crash_has_the_stack(self) -> None:
        """A crash by a signal shows the Python stack."""
        record = self.run_.of("test_segv")
        self.assertIn("SIGSEGV", record.reason)
        self.assertIn("in test_segv", record.details)
        self.assertIn("exit code 0", self.run_.of("test_exit").reason)

    def test_timeout_has_the_stack_and_the_output(self) -> None:
        """A test that hangs shows its stack and what it printed before."""
        record = self.run_.of("test_hang")
        self.assertIn("in test_hang", record.details)
        self.assertNotIn("harness/runner", record.details)
        self.assertEqual(record.output, "before the hang\n")
        self.assertIn("in tearDownClass", self.run_.of("test_h1").details)

    def test_fixtures_are_on_the_tests_concerned(self) -> None:
        """A failing setUpClass is in every test of the class, and a failing tearDownClass in the last."""
        for name in ("test_b1", "test_b2"):
            self.assertIn("ValueError: no class", self.run_.of(name).details)
        self.assertIn("tearDownClass", self.run_.of("test_t2").reason)
        self.assertEqual(self.run_.of("test_s2").reason, "no such machine")

    def test_subtests(self) -> None:
        """Sub-tests are counted, and those that did not pass are listed."""
        record = self.run_.of("test_subtests")
        self.assertEqual(record.subtests_run, 4)
        self.assertCountEqual(  # before Python 3.11 unittest reports failures last
            [(s.description, s.status) for s in record.subtests],
            [("[part] (i=2)", "failed"), ("[part] (i=3)", "skipped")],
        )

    def test_modules(self) -> None:
        """A module that does not import is an error under its name."""
        record = self.run_.of("test_broken")
        self.assertEqual(record.id, "test_broken")
        self.assertIn("ImportError: not today", record.reason)
        self.assertEqual(self.run_.of("test_skipped").reason, "not here")


class TickTest(unittest.TestCase):
    """When reporters are told the time, at which they print progress."""

    def test_not_where_a_debugger_has_the_terminal(self) -> None:
        """Progress would overwrite the prompt, and nobody waits for it: one test runs at a time."""
        for terminal in (False, True):
            with self.subTest(terminal=terminal), mock.patch.object(session, "TICK_S", 0.0):
                reporters, workers = mock.Mock(), mock.MagicMock()
                workers.wait.return_value = ()
                workers.__len__.side_effect = [1, 1, 0]  # two rounds of the loop
                setup: Any = mock.Mock(
                    units={},
                    capacity=Capacity(1),
                    isolate=False,
                    shuffle=None,
                    timings=Timings(),
                    devices=DeviceSet(),
                )
                setup.options.terminal = terminal
                run = session.Session(setup, Plan([], Policy()), mock.Mock(), workers, None, reporters)
                run.run((), lambda: False)
                self.assertEqual(reporters.tick.called, not terminal)


class RepetitionTest(RunnerCase):
    """Reruns, repeats and stops."""

    def test_flaky(self) -> None:
        """A test that passes on a rerun is flaky, and --flaky decides whether that fails the run."""
        self.write(
            "test_f",
            """
            class T(unittest.TestCase):
                def test_second_time(self):
                    if not os.path.exists("tried"):
                        open("tried", "w").close()
                        self.fail("first time")
                def test_never(self): self.fail("always")
                def test_always(self): pass
            """,
        )
        run = self.run_tests("test_f", "--reruns", "2", "-k", "second", "-k", "always")
        flaky = [(r.attempt, r.status.value, r.flaky) for r in run.records if "second" in r.id]
        self.assertEqual(flaky, [(1, "failed", False), (2, "passed", True)])
        self.assertEqual(run.code, 0, run.out)
        (self.directory / "tried").unlink()
        self.assertEqual(self.run_tests("test_f", "--reruns", "1", "-k", "second", "--flaky=fail").code, 1)
        run = self.run_tests("test_f", "--reruns", "2", "-k", "never")
        self.assertEqual([r.attempt for r in run.records], [1, 2, 3])
        self.assertEqual(run.code, 1)

    def test_repeat_and_until_fail(self) -> None:
        """--repeat counts rounds, and --until-fail goes on until a round fails."""
        self.write(
            "test_r",
            """
            class T(unittest.TestCase):
                def test_third_time(self):
                    with open("count", "a") as f: f.write("x")
                    self.assertLess(os.path.getsize("count"), 5)
            """,
        )
        run = self.run_tests("test_r", "--repeat", "2")
        self.assertEqual([r.repeat for r in run.records], [1, 2])
        self.assertEqual(run.code, 0)
        run = self.run_tests("test_r", "--until-fail")
        self.assertEqual([(r.repeat, r.ok) for r in run.records], [(1, True), (2, True), (3, False)])
        self.assertEqual(run.code, 1)

    def test_failfast(self) -> None:
        """--failfast ends the run at the first failure: running tests are ended and waiting ones not run."""
        self.write(
            "test_a",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    while not os.path.exists("other_runs"): time.sleep(0.001)
                    self.fail("stop here")
                def test_2(self): pass
            """,
        )
        self.write(
            "test_b",
            """
            class T(unittest.TestCase):
                def test_hang(self): open("other_runs", "w").close(); threading.Event().wait()
            """,
        )
        run = self.run_tests("test_a", "test_b", "--failfast", "--jobs", "2")
        self.assertEqual([r.id for r in run.records], ["test_a.T.test_1"])
        self.assertEqual(run.code, 1)
        self.assertIn("2 not run", run.out)

    def test_failfast_tears_down(self) -> None:
        """--failfast runs the failing test's fixtures to their end once, and its worker's end as well."""
        self.write(
            "test_d",
            """
            from harness.system.closing import on_close
            def note(text): open("notes", "a").write(text + "\\n")
            def tearDownModule(): note("module")
            def at_its_end(): threading.Event().wait(0.5); note("worker")
            class T(unittest.TestCase):
                @classmethod
                def tearDownClass(cls): note("class")
                def test_1(self):
                    on_close(at_its_end)
                    self.fail("stop here")
                def test_2(self): note("reached")
            """,
        )
        notes = self.directory / "notes"
        for option in ("--failfast", "--until-fail"):
            with self.subTest(option=option):
                notes.write_text("")
                run = self.run_tests("test_d", option)
                self.assertEqual((run.code, run.statuses), (1, {"test_1": "failed"}))
                self.assertEqual(notes.read_text().split(), ["class", "module", "worker"])

    def test_failfast_with_reruns(self) -> None:
        """With --failfast a failure is rerun before anything else starts, and only a final one stops."""
        self.write(
            "test_f",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    if not os.path.exists("tried"):
                        open("tried", "w").close()
                        self.fail("first time")
                def test_2(self): self.fail("always")
                def test_3(self): pass
            """,
        )
        run = self.run_tests("test_f", "--failfast", "--reruns", "1", "--jobs", "1")
        attempts = [(r.id[-1], r.attempt, r.ok) for r in run.records]
        self.assertEqual(attempts, [("1", 1, False), ("1", 2, True), ("2", 1, False), ("2", 2, False)])
        self.assertEqual(run.code, 1)
        self.assertIn("1 not run", run.out)

    def test_failfast_resumed(self) -> None:
        """A resumed --failfast run goes on after the failure, which still decides the exit code."""
        self.write(
            "test_r",
            """
            class T(unittest.TestCase):
                def test_1(self): self.fail("stop here")
                def test_2(self): pass
                def test_3(self): pass
            """,
        )
        before = self.run_tests("test_r", "--failfast", "--isolate", "--jobs", "1")
        self.assertEqual(before.statuses, {"test_1": "failed"})
        run = self.run_tests("--resume")
        self.assertEqual(run.statuses, {"test_1": "failed", "test_2": "passed", "test_3": "passed"})
        self.assertEqual(run.code, 1)

    def test_shuffle(self) -> None:
        """A shuffle seed gives the same order each time, and it is not the alphabetical one."""
        methods = "\n".join(f"    def test_{i:02}(self): pass" for i in range(20))
        self.write("test_s", f"class T(unittest.TestCase):\n{methods}\n")

        def order(*argv: str) -> list[str]:
            return [r.id for r in self.run_tests("test_s", *argv, "--jobs", "1").records]

        first = order("--shuffle=7")
        self.assertEqual(len(first), 20)
        self.assertNotEqual(first, sorted(first))
        again = order("--shuffle=7", "--repeat", "2")
        self.assertEqual(first, again[:20])
        self.assertEqual(sorted(first), sorted(again[20:]))
        self.assertNotEqual(first, again[20:])

    def test_an_order_that_was_drawn(self) -> None:
        """A drawn order is reported, kept by --resume, and can be repeated."""
        methods = "\n".join(f"    def test_{i:02}(self): self.check()" for i in range(20))
        check = "    def check(self): self.assertNotIn(self.id()[-2:], os.environ['BAD'])"
        self.write("test_s", f"class T(unittest.TestCase):\n{check}\n{methods}\n")
        stopped = self.run_tests("test_s", "--shuffle", "--failfast", "--jobs", "1", BAD="07 11")
        self.assertLess(len(stopped.records), 20)
        resumed = self.run_tests("--resume", BAD="")
        self.assertEqual(len(resumed.records), 20)
        (line,) = (x for x in stopped.out.splitlines() if x.startswith("all of it in the same order: "))
        words = shlex.split(line.partition(": ")[2])[2:]
        again = self.run_tests(*words, BAD="07 11")
        self.assertEqual([r.id for r in again.records], [r.id for r in stopped.records])
        whole = self.run_tests("test_s", words[-1], "--jobs", "1", BAD="")
        self.assertEqual([r.id for r in whole.records], [r.id for r in resumed.records])
        self.assertIn(f"shuffle seed {words[-1].partition('=')[2]},", stopped.out)

    def test_isolate(self) -> None:
        """With --isolate each test has its own process; without it, tests of a module share one."""
        self.write(
            "test_i",
            """
            class T(unittest.TestCase):
                def test_1(self): self.fail(os.getpid())
                def test_2(self): self.fail(os.getpid())
            """,
        )
        shared = {r.reason for r in self.run_tests("test_i").records}
        own = {r.reason for r in self.run_tests("test_i", "--isolate").records}
        self.assertEqual((len(shared), len(own)), (1, 2))


if __name__ == "__main__":
    unittest.main()
