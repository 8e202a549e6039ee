"""Tests the command that runs a test again: which options it keeps, and that it runs that test alone."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import unittest
from unittest import mock

from harness.pytest_plugin.reproduction import as_typed, conditions, has_its_own
from suites.selftest.pytest_plugin.runs import PytestCase


class ConditionsTest(unittest.TestCase):
    """``conditions``, which chooses among a command line's options."""

    def test_table(self) -> None:
        """Options that can change a verdict stay, with their values; selection, order and output go."""
        for argv, kept in (
            ("-x -v tests -k some --lf -n 4 --durations 3", ""),
            ("--ranks pooled --drop-in tests", "--ranks pooled --drop-in"),
            ("--rank-timeout=3 --shard 1/2 --shard-timings=f", "--rank-timeout=3"),
            ("-p no:randomly -pno:x -c pytest.ini -o a=b", "-p no:randomly -pno:x -c pytest.ini -o a=b"),
            ("--import-mode=importlib --tb short -W error", "--import-mode=importlib -W error"),
            ("--runxfail -- --drop-in", "--runxfail"),
            (
                "--reruns 2 --only-rerun=Error --timeout=5 --hypothesis-seed 3",
                "--timeout=5 --hypothesis-seed 3",
            ),
            (
                "--asyncio-mode=auto --asyncio-debug --asyncio-mode strict",
                "--asyncio-mode=auto --asyncio-mode strict",
            ),
            ("--randomly-seed=last --randomly-dont-reset-seed", "--randomly-dont-reset-seed"),
            ("-p", "-p"),
        ):
            with self.subTest(argv):
                self.assertEqual(" ".join(conditions(argv.split())), kept)


class AsTypedTest(unittest.TestCase):
    """``as_typed``: how pytest was started."""

    def test_table(self) -> None:
        """By an interpreter with its options, by another program, by a command, by a script."""
        module = "/site/pytest/__main__.py"
        for program, words, wanted in (
            (module, "python -m pytest -m slow", "python -m pytest"),
            (module, ".venv/bin/python -X dev -m pytest a", ".venv/bin/python -X dev -m pytest"),
            (module, "python -m coverage run -m pytest a", "python -m coverage run -m pytest"),
            (module, "python -mpytest", "python -m pytest"),
            ("/found/pytest", "/found/python /found/pytest a", "pytest"),
            (".venv/bin/pytest", "/x/python .venv/bin/pytest a", ".venv/bin/pytest"),
            ("tests/main.py", "python tests/main.py", "pytest"),
        ):
            with self.subTest(words), mock.patch("shutil.which", lambda name: f"/found/{name}"):
                self.assertEqual(" ".join(as_typed(program, words.split())), wanted)

    def test_of_the_project(self) -> None:
        """A command that the project's class has goes before; one of the library's does not."""
        of_library = type("OfLibrary", (), {"rerun_command": as_typed})
        of_project = type("OfProject", (), {"rerun_command": lambda self: ""})
        found = [has_its_own(kind()) for kind in (object, of_library, of_project)]
        self.assertEqual(found, [False, False, True])


class CommandTest(PytestCase):
    """The command that a failure names."""

    def again(self, command: str) -> str:
        """What a run of the command says, in the directory of the first run."""
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        environ = self.environ(PATH=path)
        done = subprocess.run(
            command, shell=True, cwd=self.project, env=environ, capture_output=True, text=True, check=False
        )
        return done.stdout

    def test_it_runs_the_test(self) -> None:
        """From the directory of the run, below the root too; a case's own command comes first."""
        (self.project / "pytest.ini").write_text("[pytest]\n")
        (self.project / "a b").mkdir()
        self.write(
            "test_it.py",
            """
            class T(MultiThreadedTestCase):
                world_size = 2
                def test_1(self): self.fail("in a rank")
                def test_2(self): pass

            class Own(T):
                def rerun_command(self): return "my command"
            """,
        )
        (self.project / "test_it.py").rename(self.project / "a b" / "test_it.py")
        self.project = self.project / "a b"
        run = self.pytest("--ranks", "threads", "--rank-timeout=100")
        self.assertEqual(run.counts, {"failed": 2, "passed": 2}, run.out)
        first, second = re.findall(r"reproduce: (.*)", run.out)
        self.assertEqual(second, "my command")
        self.assertIn("-m pytest test_it.py::T::test_1 -p no:", first)
        said = self.again(first)
        self.assertIn("1 failed", said)
        self.assertIn("in a rank", said)

    @unittest.skipUnless(importlib.util.find_spec("pytest_randomly"), "pytest-randomly is not installed")
    def test_in_a_worker(self) -> None:
        """A worker of pytest-xdist names the command that was typed, and the seed of fixtures."""
        self.write(
            "test_it.py",
            """
            import random

            @pytest.fixture
            def drawn():
                return random.random()

            @pytest.mark.ranks(2, mode="threads")
            def test_draw(drawn):
                assert not drawn
            """,
        )
        run = self.pytest("-n1", "-p", "randomly", "-p", "no:timeout")
        (command,) = re.findall(r"reproduce: (.*)", run.out)
        self.assertRegex(
            command, rf"\A{sys.executable} -m pytest test_it.py::test_draw .* -p no:timeout --ra.*\d\Z"
        )
        drawn = re.findall(r"AssertionError: assert not (0.\d+)", run.out)[0]
        self.assertIn(f"assert not {drawn}", self.again(command))

    def test_under_drop_in(self) -> None:
        """Upstream's cases are run again by pytest, too: their module may need its settings and fixtures."""
        body = """
            class T(MultiProcessTestCase):
                world_size = 2
                def setUp(self):
                    super().setUp()
                    self._spawn_processes()
                def test_it(self): self.fail("in a rank")
            """
        upstream = "from torch.testing._internal.common_distributed import MultiProcessTestCase\n"
        self.write("test_it.py", body, head=upstream)
        run = self.pytest("--drop-in", "-p", "no:timeout")
        (command,) = re.findall(r"reproduce: (.*)", run.out)
        self.assertRegex(command, r" -m pytest test_it.py::T::test_it .*--drop-in -p no:timeout\Z")


if __name__ == "__main__":
    unittest.main()
