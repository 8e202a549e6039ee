"""Tests the reports of whole runs: every way in which a cell can end, known failures, and a comparison."""

from __future__ import annotations

import unittest

from harness.conformance.differences import differences
from harness.conformance.document import Conformance, load
from harness.conformance.matrix import State
from suites.selftest.runner import runs

#: Tests whose cells end in every way, on two ranks and without ranks.
SUITE = """
    import torch
    import torch.distributed as dist

    from harness import MultiProcessTestCase, TestCase
    from harness.conformance import cell, declared_or_recorded, trial
    from harness.targets import require

    class Ranks(MultiProcessTestCase):
        world_size = 2

        def setUpRank(self):
            super().setUpRank()
            store = dist.FileStore(self.file_name, 2)
            dist.init_process_group("gloo", store=store, rank=self.rank, world_size=2)

        def test_right(self):
            for dtype in ("float32", "int64"):
                with cell("all_reduce", dtype=dtype, reduction="sum", way="sync"):
                    tensor = torch.ones(2, dtype=getattr(torch, dtype))
                    dist.all_reduce(tensor)
                    self.assertEqual(tensor.sum(), 4)

        def test_wrong(self):
            with cell("broadcast", dtype="int64", way="sync"):
                self.assertEqual(self.rank, MODIFY)

        def test_refused(self):
            with cell("gather", dtype="float32", way="sync"):
                raise RuntimeError("no gather here")

        def test_dies(self):
            with cell("scatter", dtype="float32", way="sync"):
                if self.rank:
                    os._exit(7)
                dist.barrier()

        def test_hangs(self):
            with cell("reduce", dtype="float32", way="sync"):
                if self.rank:
                    dist.recv(torch.ones(2), 0)
                else:
                    dist.barrier()

        def test_undeclared(self):
            with cell("all_to_all", dtype="int16", way="sync"):
                require(operation="all_to_all", dtype="int16")

        def test_tried(self):
            assert declared_or_recorded("broadcast", dtype="int16")
            with trial("broadcast", dtype="int16", way="sync"):
                dist.broadcast(torch.ones(2, dtype=torch.int16), 0)
            with trial("all_gather", dtype="int16", way="sync"):
                self.assertEqual(self.rank, self.rank)

    class Alone(TestCase):
        def test_right(self):
            with cell("compile", feature="views"):
                pass

        def test_dies(self):
            with cell("compile", feature="hooks"):
                os._exit(3)
"""
#: Known failures of the tests above, one of which does not fail.
PLUGIN = """
    from harness.targets import Known

    KNOWN = (
        Known("fake.Ranks.test_wrong", "ranks differ"),
        Known("fake.Alone.test_dies", "hooks kill the process", since="1.0"),
        Known("fake.Ranks.test_right", "was wrong once"),
        Known("fake.Ranks.test_refused", "no gather in old releases", before="1.0"),
    )
"""

THREE = """
    from harness.conformance import cell

    class Three(unittest.TestCase):
        def test_one(self):
            with cell("gather", dtype="float32"):
                self.assertFalse(BROKEN)

        def test_three(self):
            with cell("gather", dtype="int64"):
                pass

        def test_two(self):
            with cell("reduce", dtype="int64"):
                pass
"""


class ReportTest(runs.RunnerCase):
    """``run_tests.py --report conformance`` over modules that a test writes."""

    imports = ("torch",)

    def report(self, name: str, *argv: str, suite: str = SUITE) -> tuple[runs.Finished, Conformance]:
        """Runs and returns the run with its report, which is in the directory ``name``."""
        self.write("fake", suite.replace("MODIFY", "0"))
        done = self.run_tests("--report", "conformance", "--report-dir", name, "fake.py", *argv)
        return done, load(self.directory / name)

    def states(self, found: Conformance) -> dict[str, State]:
        """Returns the state of each cell by operation and dtype or feature."""
        return {f"{each.name} {each.coordinates[0][1]}": each.state for each in found.matrix.cells}

    def test_states(self) -> None:
        """Each way in which a cell can end is told, in every file; a repaired suite has gained."""
        done, found = self.report("old")
        self.assertEqual(done.code, 1, done.out)
        self.assertEqual(
            self.states(found),
            {
                "all_reduce float32": State.RIGHT,
                "all_reduce int64": State.RIGHT,
                "broadcast int64": State.WRONG,
                "gather float32": State.REFUSED,
                "scatter float32": State.CRASHED,
                "reduce float32": State.HUNG,
                "all_to_all int16": State.UNDECLARED,
                "broadcast int16": State.UNDECLARED,
                "all_gather int16": State.SURPLUS,
                "compile views": State.RIGHT,
                "compile hooks": State.CRASHED,
            },
        )
        said = {each.name: each.said for each in found.matrix.cells if each.state.bad}
        self.assertRegex(said["broadcast"], "not equal! Expected . but got .")
        self.assertIn("RuntimeError: no gather here", said["gather"])
        self.assertIn("exit code 7", said["scatter"])
        self.assertTrue(found.versions["torch"].startswith("2."))
        self.assertIn("fake 3/8", found.line)
        for file in ("conformance.md", "conformance.html"):
            text = (self.directory / "old" / file).read_text(encoding="utf-8")
            for word in ("wrong", "crashed", "hung", "refused", "no gather here", "fake.Ranks.test_hangs"):
                self.assertIn(word, text)
        done, _ = self.report("new", suite=SUITE.replace('raise RuntimeError("no gather here")', "pass"))
        self.assertEqual((self.diff("old", "new"), self.diff("new", "old")), (0, 1))
        self.assertEqual(self.diff("old", "nowhere"), 2)

    def test_narrower_run(self) -> None:
        """After a run of some of the tests the others are not lost; a test that was removed is."""
        suite, broken = THREE.replace("BROKEN", "0"), THREE.replace("BROKEN", "1")
        self.report("old", suite=suite)
        _, found = self.report("narrow", "-k", "test_one", suite=suite)
        self.assertEqual(found.left_out.tests, {"fake.Three.test_two", "fake.Three.test_three"})
        self.assertIn("suites.c10d.test_stores", found.left_out.others)
        self.report("removed", "-k", "test_one", suite=suite.replace("test_two", "two"))
        self.report("stopped", "--failfast", "--jobs", "1", suite=broken)
        self.assertEqual([self.diff("old", name) for name in ("narrow", "removed", "stopped")], [0, 1, 1])
        self.assertEqual(self.diff("stopped", "narrow"), 0)
        new = load(self.directory / "stopped")
        found_out = differences(load(self.directory / "old"), new)
        self.assertEqual(
            [len(part) for part in (found_out.lost, found_out.gone, found_out.not_run)], [2, 0, 4]
        )

    def diff(self, old: str, new: str) -> int:
        """Returns the exit code of a comparison."""
        return self.run_tests("conformance", "diff", old, new).code

    def test_known(self) -> None:
        """A known failure fails nothing, also where it kills the worker; a mended one fails the run.

        A run without the report records no cells.
        """
        self.write("known_here", PLUGIN)
        plug = ("--plugin", "known_here")
        done, found = self.report("known", *plug, "-k", "test_wrong", "-k", "Alone.test_dies")
        self.assertEqual(done.code, 0, done.out)
        self.assertEqual(set(done.statuses.values()), {"expected failure"})
        self.assertIn("known: hooks kill the process", done.of("test_dies").reason)
        self.assertEqual(
            {(each.state, each.known) for each in found.matrix.cells},
            {(State.WRONG, "ranks differ"), (State.CRASHED, "hooks kill the process")},
        )
        self.assertIn("2 known failures", found.line)
        plain = ("--report-dir", "plain")
        done = self.run_tests(*plug, *plain, "fake.Ranks.test_right", "fake.Ranks.test_refused")
        self.assertEqual(done.statuses, {"test_right": "unexpected success", "test_refused": "error"})
        self.assertEqual(done.code, 1)
        self.assertIn("mended: it passes, so take it out", done.out)
        for name in ("cells", "conformance.json"):  # of a run that was not asked for a report
            self.assertFalse((self.directory / "plain" / name).exists(), name)

    def test_ranks_of_every_mode(self) -> None:
        """Pooled ranks and ranks that are threads record the cells of each of their tests."""
        suite = """
    from harness import MultiProcessTestCase
    from harness.conformance import cell

    class Ranks(MultiProcessTestCase):
        world_size = 3

        def test_one(self):
            with cell("feature", feature="one"):
                self.assertLess(self.rank, 2)

        def test_two(self):
            with cell("feature", feature="two"):
                pass

        def test_three(self):
            with cell("feature", feature="three"):
                pass
"""
        for mode in ("pooled", "threads"):
            with self.subTest(mode):
                _, found = self.report(mode, "--ranks", mode, suite=suite)
                expected = {
                    "feature one": State.WRONG,
                    "feature two": State.RIGHT,
                    "feature three": State.RIGHT,
                }
                self.assertEqual(self.states(found), expected)
                self.assertEqual({each.coordinates[-1] for each in found.matrix.cells}, {("world_size", "3")})


if __name__ == "__main__":
    unittest.main()
