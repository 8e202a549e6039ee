"""Tests running modules through pytest in workers: pytest's verdicts, and the runner's own options."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from suites.selftest.runner import runs
from suites.selftest.runner.runs import PATIENCE_S, Finished, RunnerCase
from suites.selftest.runner.test_cli_debugging import Terminal

FILES = {
    "conftest.py": """
        import pytest
        made = []
        @pytest.fixture
        def seven(): return 7
        @pytest.fixture(autouse=True)
        def note(): made.append("autouse")
        def pytest_runtest_setup(item):
            if "hooked" in item.name:
                pytest.skip("by a hook")
    """,
    "pytest.ini": """
        [pytest]
        addopts = -ra -q --strict-markers --lf --junitxml=out.xml -n 2
        markers = slow
        filterwarnings =
            error::FutureWarning
    """,
    "test_marks.py": """
        import sys, unittest, pytest
        class T(unittest.TestCase):
            @pytest.mark.skipif(sys.version_info > (3,), reason="no gpu")
            def test_skipped(self): assert False
            @pytest.mark.xfail(reason="known")
            def test_xfail(self): assert False
            @pytest.mark.xfail
            def test_xpass(self): pass
            @pytest.mark.xfail(strict=True)
            def test_xpass_strict(self): pass
            @pytest.mark.parametrize("n", [1, 2])
            def test_parametrized(self, n): pass
            @pytest.fixture(autouse=True)
            def given(self, seven): self.seven = seven
            def test_given(self): self.assertEqual(self.seven, 7)
            def test_fails(self): self.assertEqual(1, 2)
            def test_raises(self): raise ValueError
            @unittest.expectedFailure
            def test_expected(self): assert False
            @unittest.expectedFailure
            def test_unexpected(self): pass
            def test_hooked(self): assert False
        @pytest.mark.skip(reason="all of it")
        class Skipped(unittest.TestCase):
            def test_a(self): assert False
        class Broken(unittest.TestCase):
            @classmethod
            def setUpClass(cls): raise RuntimeError
            def test_a(self): pass
    """,
    "test_functions.py": """
        import warnings, pytest
        from conftest import made
        @pytest.fixture(scope="module")
        def shared():
            yield [1, 2]
        @pytest.fixture
        def bad(): raise RuntimeError
        @pytest.fixture
        def bad_end():
            yield
            raise RuntimeError
        def test_passes(shared, tmp_path, monkeypatch): assert shared == [1, 2] and tmp_path.is_dir()
        def test_fails(shared): assert shared == [1, 3]
        @pytest.mark.parametrize("a, b", [(1.5, "x.y"), (2, "p::q"), (3, "u [v]")])
        def test_parametrized(a, b, seven): assert a != 2
        @pytest.mark.parametrize("shared", [[1]], indirect=False)
        def test_overridden(shared): assert shared == [1]
        def test_setup(bad): pass
        def test_teardown(bad_end): pass
        def test_skips(): pytest.skip("in the body")
        def test_xfails(): pytest.xfail("in the body")
        def test_warns(): warnings.warn("old", FutureWarning)
        def test_same_conftest(): assert made
        def test_captures(capsys):
            print("x")
            assert capsys.readouterr().out == "x\\n"
        @pytest.mark.usefixtures("bad")
        def test_uses(): pass
        class TestPlain:
            def setup_method(self): self.one = 1
            def test_method(self): assert self.one == 1
            @pytest.mark.parametrize("p", ["a", "b"])
            def test_parametrized(self, p): assert p == "a"
        class Helper:
            def test_no(self): assert False
    """,
    "test_plain.py": """
        import unittest
        class T(unittest.TestCase):
            def test_hooked(self): assert False
            def test_a(self): pass
    """,
    "test_skips_itself.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    "test_imports.py": "import pytest\npytest.importorskip('made_by_nobody')\ndef test(): assert False\n",
    "test_wrong.py": "import pytest\n@pytest.mark.parametrize('n', [1])\ndef test(): pass\n",
}
RANKS = """
import os, signal, pytest
from harness import MultiProcessTestCase
class T(MultiProcessTestCase):
    world_size = 2
    def test_pass(self): assert self.world_size == 2
    def test_fail(self): assert self.rank == 0
    def test_kill(self):
        if self.rank == 1: os.kill(os.getpid(), signal.SIGKILL)
    @pytest.mark.skipif(True, reason="off")
    def test_skip(self): assert False
    @pytest.mark.xfail(reason="known")
    def test_xfail(self): assert False
"""
ENDS = """
import pytest
@pytest.fixture(scope="module")
def shared():
    yield
    print("torn down")
def test_1(shared): pass
def test_interrupt(shared): raise KeyboardInterrupt
def test_2(shared): pass
def test_exit(): pytest.exit("away")
def test_system_exit(): sys.exit(3)
def test_crash(): os._exit(0)
def test_3(shared): pass
def test_hang(): time.sleep(1000)
def test_breakpoint(): breakpoint()
def test_4(shared): pass
"""


def outcomes(path: Path) -> dict[str, str]:
    """The outcome of each test in a JUnit file, by class and name; pytest's expected failures have passed.

    A module that does not import has its name alone: pytest gives it no class, and the runner its name again.
    """
    found: dict[str, str] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = [
            child.tag
            for child in case
            if child.tag in ("failure", "error", "skipped") and child.get("type") != "pytest.xfail"
        ]
        owner, name = case.get("classname"), case.get("name") or ""
        found[name if owner in ("", name) else f"{owner}.{name}"] = kinds[0] if kinds else "passed"
    return found


class VerdictTest(RunnerCase):
    """The same directory of files, run by pytest and by ``run_tests.py``."""

    maxDiff = None

    def test_junit_of_both(self) -> None:
        """Each test has the same outcome both ways, and no file of pytest's is left."""
        for name, text in FILES.items():
            (self.directory / name).write_text(textwrap.dedent(text))
        ours = self.run_tests(".")
        self.assertFalse((self.directory / "out.xml").exists())
        self.assertFalse((self.directory / ".pytest_cache").exists())
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider"),
                *("--continue-on-collection-errors", "--junitxml=theirs.xml"),
            ],
            cwd=self.directory,
            env=self.environ(),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        theirs = outcomes(self.directory / "theirs.xml")
        latest = Path((self.directory / ".harness" / "latest").read_text().strip())
        self.assertGreater(len(theirs), 30)
        self.assertEqual(outcomes(latest / "junit.xml"), theirs)
        self.assertEqual(ours.code, 1)


class RunTest(RunnerCase):
    """The runner's options on modules that run through pytest."""

    def test_ranks(self) -> None:
        """Tests with ranks have their ranks' outcomes, and marks are honoured before ranks start."""
        self.write("test_ranked", RANKS)
        ran = self.run_tests("test_ranked")
        expected = {
            "test_pass": "passed",
            "test_fail": "failed",
            "test_kill": "crashed",
            "test_skip": "skipped",
            "test_xfail": "expected failure",
        }
        self.assertEqual(ran.statuses, expected)
        self.assertEqual([rank.status.value for rank in ran.of("test_fail").ranks], ["passed", "failed"])
        self.assertIn("rank 1 failed: AssertionError: assert 1 == 0", ran.of("test_fail").reason)
        self.assertEqual((ran.of("test_pass").world_size, ran.of("test_skip").ranks), (2, ()))

    def test_ends(self) -> None:
        """Whatever ends a test, the others run; a crash and a hang are what they are by unittest."""
        self.write("test_ends", ENDS)
        ran = self.run_tests("test_ends", "--timeout", "5", "--jobs", "1")
        expected = {
            **{f"test_{n}": "passed" for n in range(1, 5)},
            "test_interrupt": "error",
            "test_exit": "error",
            "test_system_exit": "failed",
            "test_crash": "crashed",
            "test_hang": "timed out",
            "test_breakpoint": "failed",
        }
        self.assertEqual(ran.statuses, expected)
        self.assertIn("--pdb", ran.of("test_breakpoint").reason)
        stack = ran.of("test_hang").details
        self.assertIn("in test_hang", stack)
        self.assertNotIn("pluggy", stack, "the frames below the test are left out")

    def counted(self, *argv: str) -> Finished:
        """Runs a module that has a test which fails at the first attempt only."""
        self.write(
            "test_counted",
            """
            import pathlib, pytest
            @pytest.mark.parametrize("n", range(4))
            def test_n(n): pass
            def test_twice():
                mark = pathlib.Path("mark")
                before = mark.exists()
                mark.touch()
                assert before
            def test_fails(): print("printed"); assert 0
            """,
        )
        return self.run_tests("test_counted", *argv)

    def test_options(self) -> None:
        """Reruns, repeats, isolation, order and the rerun of failures work as for other tests."""
        ran = self.counted("--reruns", "1")
        self.assertTrue(ran.of("test_twice").flaky)
        self.assertEqual(ran.of("test_fails").attempt, 2)
        self.assertEqual(ran.of("test_fails").output, "printed\n")
        again = self.run_tests("--last-failed")
        self.assertEqual(again.statuses, {"test_fails": "failed"})
        ran = self.counted("--repeat", "2", "--isolate", "--shuffle", "-k", "test_n")
        self.assertEqual([r.status.value for r in ran.records], ["passed"] * 8)

    def test_options_of_other_plugins(self) -> None:
        """pytest-timeout and pytest-rerunfailures act inside an attempt of the runner's."""
        (self.directory / "pytest.ini").write_text("[pytest]\naddopts = --timeout=2 --reruns=1\n")
        self.write(
            "test_others",
            """
            import time
            import pytest
            @pytest.mark.flaky(reruns=0)
            def test_hangs(): time.sleep(1000)
            """,
        )
        ran = self.run_tests("test_others")
        self.assertEqual(ran.of("test_hangs").status.value, "failed")
        self.assertIn("Timeout", ran.of("test_hangs").reason)
        (self.directory / "pytest.ini").write_text("[pytest]\naddopts = --reruns=1\n")
        ran = self.counted()
        twice, fails = ran.of("test_twice"), ran.of("test_fails")
        self.assertEqual((twice.status.value, twice.flaky, twice.attempt), ("passed", False, 1))
        self.assertEqual(
            (fails.status.value, fails.attempt, fails.output), ("failed", 1, "printed\nprinted\n")
        )

    def test_stop_at_the_first_failure(self) -> None:
        """``--failfast`` ends the batch, and tears shared fixtures down."""
        self.write(
            "test_stops",
            """
            import pathlib, pytest
            @pytest.fixture(scope="module")
            def shared():
                yield
                pathlib.Path("torn").touch()
            def test_1(shared): assert 0
            def test_2(shared): pass
            """,
        )
        ran = self.run_tests("test_stops", "--failfast", "--jobs", "1")
        self.assertEqual((ran.code, ran.statuses), (1, {"test_1": "failed"}))
        self.assertTrue((self.directory / "torn").exists())

    def test_reports_that_come_late(self) -> None:
        """A plugin that runs a test by itself and reports afterwards changes nothing."""
        (self.directory / "conftest.py").write_text(
            "from _pytest.runner import runtestprotocol\n"
            "def pytest_runtest_protocol(item, nextitem):\n"
            "    for report in runtestprotocol(item, nextitem=nextitem, log=False):\n"
            "        item.ihook.pytest_runtest_logreport(report=report)\n"
            "    return True\n"
        )
        self.write("test_late", "def test_x(): assert [1] == [2]\n")
        ran = self.run_tests("test_late")
        self.assertEqual(ran.of("test_x").reason, "AssertionError: assert [1] == [2]")

    def test_shared_fixtures(self) -> None:
        """A fixture of a module or class is set up once for its tests, on ranks or not, as in pytest."""
        self.write(
            "test_shared",
            """
            import pytest
            def note(word):
                with open("made", "a") as file:
                    file.write(f"{word} ")
            @pytest.fixture(scope="module")
            def steps():
                note("module")
                return []
            @pytest.fixture(scope="class")
            def of_class(): note("class")
            @pytest.mark.parametrize("n", range(40))
            def test_n(steps, n):
                assert steps == list(range(n))
                steps.append(n)
            @pytest.mark.ranks(2, backend=None)
            def test_on_ranks(steps): assert len(steps) == 40
            class TestPlain:
                @pytest.mark.parametrize("n", range(40))
                def test_n(self, of_class, n): pass
            """,
        )
        ran = self.run_tests("test_shared", "--jobs", "2")
        self.assertEqual(ran.code, 0, ran.out)
        made = (self.directory / "made").read_text().split()
        self.assertEqual(sorted(made), ["class", "module"])

    def test_drop_in(self) -> None:
        """Upstream's classes run on this harness's ranks there too."""
        self.write(
            "test_dropped",
            """
            import pytest
            from torch.testing._internal.common_distributed import MultiProcessTestCase
            class T(MultiProcessTestCase):
                world_size = 2
                def setUp(self):
                    super().setUp()
                    self._spawn_processes()
                def test_pass(self): pass
                @pytest.mark.skip(reason="off")
                def test_off(self): assert False
            """,
        )
        ran = self.run_tests("test_dropped", "--drop-in")
        self.assertEqual(ran.statuses, {"test_pass": "passed", "test_off": "skipped"})
        self.assertEqual(len(ran.of("test_pass").ranks), 2)

    def test_import_that_leaves_a_thread(self) -> None:
        """A module that a worker has to import itself runs through pytest there."""
        self.write(
            "test_threaded",
            "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\ndef test_a(): pass\n",
        )
        self.assertEqual(self.run_tests("test_threaded").statuses, {"test_a": "passed"})

    def test_debugger(self) -> None:
        """``--pdb`` stops where the test failed, before its fixtures are gone."""
        self.write("test_p", "def test_1():\n    answer = 40\n    assert answer == 2\n")
        terminal = Terminal(self.command("test_p", "--pdb"), self.environ(TERM="dumb"), str(self.directory))
        terminal.read_until("(Pdb)")
        terminal.type("p answer + 2")
        self.assertIn("42", terminal.read_until("(Pdb)"))
        terminal.type("c")
        self.assertEqual(terminal.close(), 1)
        self.assertEqual([r.status.value for r in runs.journal_records(self.directory)], ["failed"])
