"""Tests the plugin's hooks in real runs: outcomes, reports, clean starts, and projects that do not use it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

import psutil

from suites.selftest.pytest_plugin.runs import (
    PATIENCE_S,
    ROOT,
    WITHOUT,
    PytestCase,
    entry_points,
    sections,
)
from suites.selftest.runner.test_cli_debugging import Terminal

TESTS = """
class T(MultiProcessTestCase):
    world_size = 2

    def test_pass(self):
        print("printed by", self.rank)

    def test_fail(self):
        print("printed by", self.rank)
        assert self.rank == 0, "one is wrong"

    def test_die(self):
        if self.rank == 1:
            os._exit(3)

    def test_sub(self):
        print("printed by", self.rank)
        for i in range(3):
            with self.subTest(i=i):
                self.assertNotEqual(i, 1)

    def test_leak(self):
        import subprocess
        if self.rank == 1:
            subprocess.Popen(["sleep", "600"])  # ended with its rank

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("no")

    @pytest.mark.xfail
    def test_marked(self):
        self.fail("no")
"""


class OutcomesTest(PytestCase):
    """What pytest shows of tests on ranks."""

    def test_report(self) -> None:
        """Outcomes are pytest's; text, sections, warnings, summary, properties and command stand once."""
        self.write("test_it.py", TESTS)
        run = self.pytest("-rA", "--junitxml=junit.xml", "--rank-timeout", "200", "--durations=3")
        self.assertEqual(run.code, 1, run.out)
        self.assertEqual(run.counts, {"failed": 3, "passed": 3, "xfailed": 2, "warning": 1}, run.out)
        self.assertNotIn("harness/", run.out.split("warnings summary")[0].split("= FAILURES =")[1])
        self.assertEqual(run.out.count("cause: rank 1 failed: AssertionError: one is wrong"), 1)
        self.assertNotIn("output of rank", run.out)
        for rank in (0, 1):
            shown = list(sections(run.out, f"Captured stdout of rank {rank} call"))
            self.assertEqual(shown, [f"printed by {rank}"] * 3, run.out)  # of test_fail, test_sub, test_pass
        self.assertRegex(run.out, r"slowest 3 durations =+\n[\d.]+s call +test_it.py::T::test_")
        self.assertEqual(run.out.count("RankLeakWarning"), 1)
        self.assertRegex(
            run.out, r"(?s)warnings summary.*\ntest_it.py::T::test_leak\n  \S+/test_it.py:\d+: RankLeak"
        )
        self.assertRegex(run.out, r"FAILED test_it.py::T::test_die - rank 1 crashed: exit code 3")
        self.assertRegex(run.out, r"SUBFAILED\(i=1\) test_it.py::T::test_sub - rank [01]: 1 sub-test failed")
        self.assertRegex(
            run.out,
            r"reproduce: \S+ -m pytest test_it.py::T::test_die -p no:cacheprovider .*--rank-timeout 200\n",
        )
        cases = ElementTree.parse(self.project / "junit.xml").iter("testcase")
        found = {
            case.get("name"): {p.get("name"): p.get("value") or "" for p in case.iter("property")}
            for case in cases
        }
        self.assertRegex(found["test_die"]["rank 1"], r"crashed, .*exit code 3")
        self.assertRegex(found["test_pass"]["rank 0"], r"passed, ")
        self.assertEqual(set(found["test_fail"]), {"rank 0", "rank 1"})

    def test_pytests_options(self) -> None:
        """``-x`` stops at the first failure, ``--lf`` runs what failed; ``-W`` makes warnings errors."""
        self.write("test_it.py", TESTS)
        run = self.pytest("-p", "cacheprovider", "-k", "die or sub or pass or leak", "--tb=line",
                          "-W", "error::harness.errors.RankLeakWarning")  # fmt: skip
        self.assertIn("rank 1 crashed: exit code 3", run.out)
        self.assertEqual(run.counts["failed"], 3, run.out)
        run = self.pytest("-p", "cacheprovider", "--lf", "-v", "--tb=no", "-x")
        self.assertEqual(run.counts["failed"], 1, run.out)
        self.assertIn("test_die", run.out)
        self.assertNotIn("test_pass", run.out)

    def test_debugger(self) -> None:
        """``--pdb`` shows where a rank failed, says that it is gone, and which option gives it a debugger.

        That begins a line, also with ``-q``, where pytest does not know of its letters for tests.
        """
        self.write("test_it.py", TESTS)
        run = self.pytest("--pdb", "-q", "-k", "test_fail")
        self.assertRegex(run.out, r"(?m)^> .*test_it\.py\(\d+\)test_fail\(\)$")
        self.assertRegex(
            run.out, r"(?m)^the ranks of this test have ended.*rank 1, which failed first: --pdb-rank 1"
        )

    def test_rank_at_the_terminal(self) -> None:
        """``--pdb-rank`` gives a rank the terminal, without the time limits of harness and pytest-timeout.

        A mark's limit is none either: somebody at a debugger thinks for longer.
        """
        self.write(
            "test_it.py",
            """
            class T(MultiProcessTestCase):
                world_size = 2

                @pytest.mark.timeout(1)
                def test_it(self):
                    answer = 40 + self.rank
                    time.sleep(1.5)  # longer than every limit given
                    breakpoint()
                    self.assertEqual(answer, 42)
            """,
        )
        argv = [sys.executable, "-m", "pytest", *WITHOUT, "--pdb-rank=1", "--timeout=1", "--rank-timeout=1"]
        terminal = Terminal(argv, self.environ(TERM="dumb"), str(self.project))
        terminal.read_until("(Pdb) ")
        terminal.type("p answer + 1000")
        self.assertIn("1041", terminal.read_until("(Pdb) "))
        terminal.type("c")
        terminal.read_until("(Pdb) ")  # where the test fails
        terminal.type("q")
        terminal.read_until("1 failed")
        self.assertEqual(terminal.close(), 1)

    def test_time_limits_of_others(self) -> None:
        """Where pytest-timeout fails a test or ends pytest, its ranks are ended too."""
        self.write(
            "test_it.py",
            """
            class T(MultiProcessTestCase):
                world_size = 2

                def test_first(self): pass  # starts the server

                @pytest.mark.timeout(6)
                def test_hang(self):
                    with open(f"pid{self.rank}", "w") as file:
                        file.write(str(os.getpid()))
                    time.sleep(1000)

                def test_next(self): pass
            """,
        )
        for method, said in (("signal", "1 failed, 2 passed"), ("thread", "Timeout")):
            with self.subTest(method):
                run = self.pytest(f"--timeout-method={method}")
                self.assertIn(said, run.out)
                for rank in (0, 1):
                    wait_for_end(int((self.project / f"pid{rank}").read_text()))
                    (self.project / f"pid{rank}").unlink()


def wait_for_end(pid: int) -> None:
    """Waits until a process has ended; psutil.TimeoutExpired where it goes on."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(PATIENCE_S)


class StartTest(PytestCase):
    """What ranks inherit of pytest and of fixtures, and when their server is started."""

    warm = False

    def test_clean(self) -> None:
        """Neither fixtures' patches and groups nor pytest's handlers, filters and hooks act in ranks.

        Of a fixture ranks see environment, directory and ``sys.path``.
        """
        self.write(
            "conftest.py",
            """
            import os, sys, warnings
            import pytest, torch, torch.distributed as dist

            @pytest.fixture(scope="session", autouse=True)
            def group(tmp_path_factory):
                from torch.testing._internal.distributed.fake_pg import FakeStore
                dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
                warnings.simplefilter("error")
                yield
                dist.destroy_process_group()

            @pytest.fixture(autouse=True)
            def environment(request, monkeypatch, tmp_path, caplog, capsys):
                monkeypatch.setenv("OF_FIXTURE", "yes")
                monkeypatch.chdir(tmp_path)
                monkeypatch.syspath_prepend(str(tmp_path / "added"))
                monkeypatch.setattr(os, "getlogin", lambda: "patched")
                if request.instance is not None:
                    request.instance.of_fixture = 1
            """,
        )
        self.write(
            "test_it.py",
            """
            import torch.distributed as dist

            class T(MultiProcessTestCase):
                world_size = 2

                def test_seen(self):
                    self.assertEqual(os.environ["OF_FIXTURE"], "yes")
                    self.assertIn("test_seen", os.getcwd())
                    self.assertTrue(any(p.endswith("/added") for p in sys.path), sys.path)

                def test_not_seen(self):
                    self.assertFalse(dist.is_initialized())
                    self.assertFalse(hasattr(self, "of_fixture"))
                    self.assertNotEqual(getattr(os.getlogin, "__name__", ""), "<lambda>")

                def test_pytests_own(self):
                    self.assertEqual(logging.root.handlers, [])
                    for hook in (sys.unraisablehook, threading.excepthook, warnings.showwarning):
                        self.assertNotIn("_pytest", f"{hook!r}")
                    logging.getLogger("x").warning("logged in a rank")
                    warnings.warn("warned in a rank")
                    thread = threading.Thread(target=lambda: 1 / 0)
                    thread.start()
                    thread.join()
            """,
        )
        run = self.pytest("-rA", "--log-level=DEBUG", "--log-cli-level=INFO", "-o", "log_cli=true")
        self.assertEqual(run.counts, {"passed": 3}, run.out)
        for rank in (0, 1):
            (shown,) = sections(run.out, f"Captured stdout of rank {rank} call")
            for text in ("logged in a rank", "warned in a rank", "ZeroDivisionError"):
                self.assertIn(text, shown)

    def test_torch_is_imported_once(self) -> None:
        """A file that imports no torch has ranks with a process group, for which their server imports it."""
        self.write(
            "test_it.py",
            """
            import os, sys
            import pytest

            class Noting:
                def find_spec(self, name, *more):
                    if name == "torch":
                        with open("imports", "a") as file:
                            print(os.getpid(), file=file)

            sys.meta_path.insert(0, Noting())

            @pytest.mark.ranks(2)
            def test_group(rank_context): pass
            """,
            head="",
        )
        run = self.pytest()
        self.assertEqual(run.counts, {"passed": 1}, run.out)
        self.assertEqual(len((self.project / "imports").read_text().split()), 1)

    def test_server_only_if_needed(self) -> None:
        """A server is started before the first fixture, and not for tests that marks skip."""
        self.write(
            "conftest.py",
            """
            import pytest

            def launchers():
                from harness.ranks.processes.choose_launcher import launchers
                return [each for each in launchers().values() if each.server is not None]

            @pytest.fixture(scope="session", autouse=True)
            def first():
                print("SERVERS BEFORE FIXTURES", len(launchers()))
                yield

            def pytest_unconfigure():
                print("SERVERS AT END", len(launchers()))
            """,
        )
        self.write(
            "test_it.py",
            """
            class T(MultiProcessTestCase):
                world_size = 2

                def test_runs(self): pass

                @pytest.mark.skip(reason="x")
                def test_skip(self): pass

                @pytest.mark.skipif("sys.platform", reason="x")
                def test_skipif(self): pass

                @pytest.mark.xfail(run=False)
                def test_xfail(self): pass

                @unittest.skip("x")
                def test_unittest(self): pass

            class Threads(MultiThreadedTestCase):
                world_size = 2

                def test_threads(self): pass
            """,
        )
        run = self.pytest("-s", "-k", "not runs")
        self.assertEqual(run.counts, {"passed": 1, "skipped": 3, "xfailed": 1, "deselected": 1}, run.out)
        self.assertIn("SERVERS BEFORE FIXTURES 0", run.out)
        self.assertIn("SERVERS AT END 0", run.out)
        self.assertIn("SERVERS AT END 0", self.pytest("-s", "--collect-only").out)
        run = self.pytest("-s")
        self.assertIn("SERVERS BEFORE FIXTURES 1", run.out)
        self.assertEqual(run.counts["passed"], 2, run.out)


class GarbageTest(PytestCase):
    """What becomes of the garbage collector."""

    warm = False

    def test_drop_in(self) -> None:
        """While files are imported there are no collections; for tests there are, without what was imported.

        So it is for the workers of pytest-xdist, and where the files have no tests of the harness.
        """
        body = """
            import gc
            during = gc.get_threshold()

            def test_collector():
                assert during[0] == 0, during
                assert gc.isenabled() and gc.get_threshold()[0] > 0, gc.get_threshold()
                assert gc.get_freeze_count() > 0
            """
        self.write("test_it.py", body, head="")
        for words in ((), ("-n1",)):
            with self.subTest(words):
                run = self.pytest("--drop-in", *words)
                self.assertEqual(run.counts, {"passed": 1}, run.out)

    def test_files_of_the_harness(self) -> None:
        """So it is without --drop-in from the first file on that imports the harness."""
        body = """
            import gc
            during = gc.get_threshold()
            {imports}
            def test_collector():
                assert (during[0] == 0) is {paused}, during
                assert gc.isenabled() and gc.get_threshold()[0] > 0, gc.get_threshold()
                assert gc.get_freeze_count() > 0
            """
        self.write("test_1.py", body.format(imports="", paused=False), head="")
        self.write("test_2.py", body.format(imports="import harness as h", paused=True), head="")
        self.write("test_3.py", body.format(imports="", paused=True), head="")
        run = self.pytest()
        self.assertEqual(run.counts, {"passed": 3}, run.out)

    def test_broken_conftest(self) -> None:
        """Where pytest ends before any test, what the conftest has made is collected at its end."""
        self.write(
            "conftest.py",
            """
            import os

            class Cycle:
                def __init__(self):
                    self.itself = self

                def __del__(self, write=os.write):
                    write(1, b"COLLECTED")

            cycle = Cycle()
            raise RuntimeError("broken")
            """,
        )
        self.write("test_it.py", "def test_it(): pass\n", head="")
        run = self.pytest("--drop-in")
        self.assertEqual(run.code, 4, run.out)
        self.assertIn("RuntimeError: broken", run.out)
        self.assertIn("COLLECTED", run.out)


class CommunicationTest(PytestCase):
    """A warning about the communication of a test's ranks."""

    def test_warning(self) -> None:
        """It is in the summary of warnings once, at the test, and fails it where warnings are errors."""
        self.write(
            "test_it.py",
            """
            import torch, torch.distributed as dist

            class T(MultiProcessTestCase):
                world_size = 2

                def test_forgotten(self):
                    store = dist.FileStore(self.file_name, 2)
                    dist.init_process_group("gloo", rank=self.rank, world_size=2, store=store)
                    dist.all_reduce(torch.ones(2), async_op=True)
                    dist.barrier()
            """,
        )
        run = self.pytest("test_it.py")
        self.assertEqual(run.counts, {"passed": 1, "warning": 1}, run.out)
        summary = run.out[run.out.index("warnings summary") :]
        self.assertEqual(summary.count("CommunicationWarning"), 1, run.out)
        self.assertIn("test_it.py::T::test_forgotten\n", summary)
        run = self.pytest("-W", "error::harness.errors.CommunicationWarning", "test_it.py")
        self.assertEqual(run.counts.get("failed"), 1, run.out)
        self.assertIn("CommunicationWarning", run.out)
        run = self.pytest("-W", "error", "test_it.py")
        self.assertEqual(run.counts.get("failed"), 1, run.out)


class UnusedTest(PytestCase):
    """The plugin in projects that do not use the harness."""

    warm = False

    def test_no_effect(self) -> None:
        """A CI system's shard, options of the same names and a wrong variable of ours change nothing."""
        self.write(
            "conftest.py",
            """
            import sys

            def pytest_addoption(parser):
                parser.addoption("--shard", default="theirs")
                parser.addoption("--ranks", type=int, default=3)

            def pytest_unconfigure():
                loaded = {name for name in sys.modules if name.startswith(("harness", "torch"))}
                print("LOADED", *sorted(loaded))
            """,
        )
        self.write(
            "test_it.py",
            """
            def test_one(pytestconfig):
                assert pytestconfig.getoption("shard") == "mine"
                assert pytestconfig.getoption("--ranks") == 5
            def test_two():
                import gc, os
                assert gc.get_threshold()[0] > 0 and gc.get_freeze_count() == int(os.environ["FROZEN"])
            """,
            head="",
        )
        # Python 3.12 has frozen some objects itself before it runs anything.
        frozen = "import gc; print(gc.get_freeze_count())"
        begun = subprocess.run(
            [sys.executable, "-c", frozen], capture_output=True, text=True, check=True
        ).stdout
        variables = {"CI_NODE_INDEX": "7", "CI_NODE_TOTAL": "2", "HARNESS_TIMEOUT": "wrong", "FROZEN": begun}
        run = self.pytest("--shard=mine", "--ranks", "5", "-s", **variables)
        self.assertEqual(run.counts, {"passed": 2}, run.out)
        loaded = run.out.partition("LOADED ")[2].splitlines()[0].split()
        heavy = [name for name in loaded if name.startswith(("torch", "harness.cases", "harness.ranks"))]
        self.assertEqual(heavy, [])

    def test_entry_point(self) -> None:
        """The entry point names the plugin; importing it brings neither torch nor what tests need."""
        self.assertEqual(entry_points()["pytest11"], ["torch_harness = harness.pytest_plugin.plugin"])
        code = "import sys, harness.pytest_plugin.plugin; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        loaded = done.stdout.split()
        heavy = {
            "torch",
            "numpy",
            "filelock",
            *map("harness.{}".format, ("cases", "requirements", "targets")),
        }
        self.assertFalse(heavy & set(loaded))
        self.assertIn("torch_harness", self.pytest("--trace-config").out)


if __name__ == "__main__":
    unittest.main()
