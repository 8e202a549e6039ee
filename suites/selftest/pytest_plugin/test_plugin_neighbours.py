"""Tests the plugin beside others, in real runs: modes of pytest-xdist, reruns, random order, coverage."""

from __future__ import annotations

import importlib.util
import json
import re
import unittest
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import NamedTuple

from suites.selftest.pytest_plugin.runs import PytestCase, sections

# Two files of it have four classes and eight tests, none of which may run beside another one.
NOTED = """
import json
from harness import exclusive

def note(case, event):
    if case.rank == 0:
        worker, scope = os.environ["PYTEST_XDIST_WORKER"], case.id().rpartition(".")[0]
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps([time.monotonic(), event, worker, scope, case.id()]) + "\\n")

class First(MultiProcessTestCase):
    world_size = 2

    @exclusive
    def test_1(self):
        note(self, "begin")
        note(self, "end")

    test_2 = test_1

class Second(First):
    pass
"""


class Note(NamedTuple):
    """What rank 0 of a test has noted when it began, or when it ended."""

    at: float
    event: str
    worker: str
    scope: str
    test: str


class ModesTest(PytestCase):
    """``--dist`` of pytest-xdist, with tests that take all slots."""

    def distributed(self, *options: str) -> list[Note]:
        """What the tests of two files noted, in the order of time."""
        for name in ("test_a.py", "test_b.py"):
            self.write(name, NOTED)
        notes = self.project / "notes"
        notes.unlink(missing_ok=True)
        run = self.pytest(*options, NOTES=str(notes))
        self.assertEqual(run.code, 0, run.out)
        return sorted(Note(*json.loads(line)) for line in notes.read_text().splitlines())

    def check_alone(self, notes: list[Note]) -> Counter[str]:
        """How often each test ran; each ended before the next one began, in whatever worker."""
        pairs = list(zip(notes[::2], notes[1::2], strict=True))
        for begin, end in pairs:
            self.assertEqual((begin.event, end.event, begin.test), ("begin", "end", end.test), notes)
        return Counter(begin.test for begin, _ in pairs)

    def test_share_the_tests(self) -> None:
        """Each test runs once; what a mode keeps together runs in one worker.

        The default, ``load``, is that of ``test_xdist.py``.
        """
        together: dict[str, Callable[[Note], str]] = {
            "worksteal": lambda note: note.test,
            "loadscope": lambda note: note.scope,
            "loadfile": lambda note: note.scope.partition(".")[0],
        }
        for mode, group in together.items():
            with self.subTest(mode):
                notes = self.distributed("-n2", "--dist", mode)
                counts = self.check_alone(notes)
                self.assertEqual((len(counts), set(counts.values())), (8, {1}))
                workers = defaultdict(set)
                for note in notes:
                    workers[group(note)].add(note.worker)
                self.assertEqual({len(each) for each in workers.values()}, {1}, notes)

    def test_each(self) -> None:
        """Each worker runs all tests, in turns with the other one."""
        notes = self.distributed("--tx", "2*popen", "--dist", "each")
        counts = self.check_alone(notes)
        self.assertEqual((len(counts), set(counts.values())), (8, {2}))
        self.assertEqual(len({note.worker for note in notes}), 2)


class NeighboursTest(PytestCase):
    """Plugins that are in many projects."""

    def test_reruns(self) -> None:
        """pytest-rerunfailures runs a test again on new ranks, with properties and logs of each attempt.

        With pytest-xdist installed it has a thread, but ranks are forked all the same: nothing is imported
        again.
        """
        self.write(
            "test_it.py",
            """
            with open("imports", "a") as file:
                print(os.getpid(), file=file)

            class T(MultiProcessTestCase):
                world_size = 2

                def test_flaky(self):
                    print("rank", self.rank, "is", os.getpid())
                    if self.rank == 1 and not os.path.exists("failed"):
                        open("failed", "w").close()
                        self.fail("the first time")
            """,
        )
        options = ("--reruns=1", "--junitxml=junit.xml", "--rank-log-dir=logs")
        run = self.pytest("-p", "rerunfailures", "-rA", *options)
        self.assertEqual(run.counts, {"passed": 1, "rerun": 1}, run.out)
        self.assertEqual(len((self.project / "imports").read_text().split()), 1)
        found = ElementTree.parse(self.project / "junit.xml").iter("property")
        said = [each.get("value") or "" for each in found if each.get("name") == "rank 1"]
        self.assertEqual([text.partition(",")[0] for text in said], ["failed", "passed"])
        (shown,) = sections(run.out.partition("= PASSES =")[2], "Captured stdout of rank 1 call")
        self.assertRegex(shown, r"\Arank 1 is \d+\Z")
        printed = [
            (self.project / "logs" / f"test_it.T.test_flaky{attempt}.rank1.log").read_text()
            for attempt in ("", ".attempt2")
        ]
        for text in printed:
            self.assertRegex(text, r"\Arank 1 is \d+\n")
        self.assertNotEqual(*printed)

    def test_reruns_by_exception(self) -> None:
        """``only_rerun`` and ``rerun_except`` find what a rank raised: by class, or by type and text.

        To a ``condition``, a text or a function, it is the ``error``.
        """
        self.write(
            "test_it.py",
            """
            flaky = pytest.mark.flaky

            def fails_first(rank, name):
                if rank == 1 and not os.path.exists(name):
                    open(name, "w").close()
                    raise ConnectionResetError("the first time")

            class T(MultiThreadedTestCase):
                world_size = 2

                @flaky(reruns=1, only_rerun=ConnectionError)
                def test_class(self): fails_first(self.rank, "class")

                @flaky(reruns=1, only_rerun="^ConnectionResetError: the")
                def test_text(self): fails_first(self.rank, "text")

                @flaky(reruns=1, condition="isinstance(error, OSError)")
                def test_error(self): fails_first(self.rank, "error")

                @flaky(reruns=1, condition=lambda error: isinstance(error, KeyError))
                def test_other_error(self): fails_first(self.rank, "other error")

                @flaky(reruns=1, only_rerun=KeyError)
                def test_other(self): fails_first(self.rank, "other")

                @flaky(reruns=1, rerun_except=OSError)
                def test_except(self): fails_first(self.rank, "except")

            @flaky(reruns=2, condition=lambda error: "crashed" in str(error))
            @pytest.mark.ranks(1)
            def test_death():
                import os
                if len(os.listdir("deaths")) < 2:
                    open(f"deaths/{os.getpid()}", "w").close()
                    os._exit(3)

            @flaky(reruns=1, only_rerun=[KeyError, ConnectionError])
            @pytest.mark.ranks(2, mode="threads")
            def test_function(rank_context):
                fails_first(rank_context.rank, "function")
            """,
        )
        (self.project / "deaths").mkdir()
        run = self.pytest("-p", "rerunfailures", "-rRf")
        self.assertEqual(run.counts, {"failed": 3, "passed": 5, "rerun": 6}, run.out)
        failed = {"test_other", "test_other_error", "test_except"}
        self.assertEqual(set(re.findall(r"FAILED test_it.py::T::(\w+) -", run.out)), failed)

    @unittest.skipUnless(importlib.util.find_spec("pytest_randomly"), "pytest-randomly is not installed")
    def test_random_order(self) -> None:
        """pytest-randomly shuffles tests and seeds pytest's process; ranks keep the harness's seed."""
        self.write(
            "test_it.py",
            """
            import random

            @pytest.fixture
            def of_pytest():
                return random.random()

            @pytest.mark.ranks(2)
            @pytest.mark.parametrize("n", range(6))
            def test_draw(n, of_pytest, rank_context):
                if rank_context.rank == 1:
                    with open("drawn", "a") as file:
                        print(n, of_pytest, random.random(), file=file)
            """,
        )
        orders, of_pytest, of_ranks = [], set(), set()
        for seed in (1, 2):
            run = self.pytest("-p", "randomly", f"--randomly-seed={seed}")
            self.assertEqual(run.counts, {"passed": 6}, run.out)
            lines = [line.split() for line in (self.project / "drawn").read_text().splitlines()][-6:]
            orders.append([number for number, _, _ in lines])
            of_pytest |= {drawn for _, drawn, _ in lines}
            of_ranks |= {drawn for _, _, drawn in lines}
        self.assertNotEqual(*orders)
        self.assertGreater(len(of_pytest), 1)  # a seed for each test
        self.assertEqual(len(of_ranks), 1)

    @unittest.skipUnless(importlib.util.find_spec("pytest_cov"), "pytest-cov is not installed")
    def test_coverage(self) -> None:
        """pytest-cov counts the lines and branches that ranks run, and those that are kept for more tests."""
        self.write(
            "covered.py",
            """
            def branch(rank):
                if rank == 1:
                    return 'one'
                return 'zero'

            def pooled():
                return 2
            """,
        )
        self.write("unused.py", "def never():\n    return 1\n")
        self.write(
            "test_it.py",
            """
            import covered, unused

            @pytest.mark.ranks(2)
            def test_it(rank_context):
                assert covered.branch(rank_context.rank) in ("one", "zero")

            @pytest.mark.ranks(2, mode="pooled")
            def test_kept():
                assert covered.pooled() == 2
            """,
        )
        run = self.pytest("-p", "pytest_cov", "--cov=covered", "--cov=unused", "--cov-branch")
        self.assertEqual(run.counts, {"passed": 2}, run.out)
        self.assertRegex(run.out, r"covered\.py +6 +0 +2 +0 +100%")
        self.assertEqual([path.name for path in self.project.glob(".coverage*")], [".coverage"])
        self.assertRegex(run.out, r"unused\.py +2 +1 +0 +0 +50%")


if __name__ == "__main__":
    unittest.main()
