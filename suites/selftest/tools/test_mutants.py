"""Tests that tools/mutants.py finds the tests that a planted fault does not fail, on ranks of every kind."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from harness.errors import UsageError
from harness.impact.impact_map import ImpactMap
from harness.outcomes import Status
from harness.record import TestRecord
from harness.settings import EnvVar
from suites import planting
from suites.planting import Marks, Mutant, Touch, replacing, switched
from suites.selftest import warm_python
from suites.selftest.runner.runs import PATIENCE_S
from suites.selftest.tools.planted import arithmetic
from suites.selftest.tools.planted import mutants as table
from tools import mutants

SUITE = "selftest.tools.planted"
TESTS = f"suites.{SUITE}.sums"
TREE = Path(mutants.__file__).resolve().parents[1]
NOWHERE = Mutant("nowhere", "nothing is wrong", lambda touch: None)


class Tool(unittest.TestCase):
    """The tool on the small suite of ``planted``; all tests share its run without a fault."""

    baseline: Path

    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.baseline = Path(directory.name, "baseline")

    def run_tool(self, *arguments: str, environ: Mapping[str, str] = {}) -> tuple[int, str, str]:
        done = warm_python.run(
            (str(TREE / "tools" / "mutants.py"), SUITE, *arguments),
            cwd=TREE,
            env={**os.environ, "PYTHONPATH": str(TREE), **environ},
            timeout=PATIENCE_S,
            merged=False,
        )
        return done.returncode, done.stdout, done.stderr

    def test_survivors_on_ranks_of_every_kind(self) -> None:
        code, out, err = self.run_tool("--baseline", str(self.baseline), "--mutant=off_by_one")
        self.assertEqual((code, err), (1, ""))
        self.assertEqual(
            out.splitlines(),
            [
                "15 tests pass without a fault",
                "off_by_one (double adds one): 8 of 11 concerned tests fail (72.7 %)",
                f"    survives: {TESTS}.FreshTest.test_unheeded_on_one_rank",
                f"    survives: {TESTS}.PooledTest.test_unheeded",
                "    and 1 for known reasons",
                "    SURVIVORS has '*.SingleTest.test_value', and nothing like it survives",
                "    SURVIVORS has '*.no_such_test', and nothing like it survives",
                "1 mutants: 8 of 11 concerned tests fail (72.7 %), 2 survivors without a reason",
            ],
        )

    def test_all_is_well_where_every_concerned_test_fails(self) -> None:
        """The exit code is 0 if every concerned test fails, even by hanging or under an unwatched fault."""
        names = ("small", "never_done", "forgets_a_bit")
        code, out, _ = self.run_tool(
            "--baseline", str(self.baseline), "--timeout=2", *(f"--mutant={name}" for name in names)
        )
        self.assertEqual(code, 0, out)
        self.assertIn("small (double adds one to 1): 4 of 4 concerned", out)
        self.assertIn("never_done (the third step is not enough): 1 of 1 concerned", out)
        self.assertIn("forgets_a_bit (double forgets bit 4 of large numbers): 1 of 1 concerned", out)
        self.assertIn("3 mutants: 6 of 6 concerned", out)

    def test_a_fault_that_no_test_executes(self) -> None:
        code, out, _ = self.run_tool("--baseline", str(self.baseline), "--mutant=uns*")
        self.assertEqual(code, 1)
        self.assertIn("no test executes it", out)

    def test_a_keyword_limits_an_earlier_run_too(self) -> None:
        arguments = ("--baseline", str(self.baseline), "--mutant=off_by_one", "-k", "ThreadedTest")
        code, out, _ = self.run_tool(*arguments)
        self.assertEqual(code, 0)
        self.assertEqual(
            out.splitlines()[:-1],
            [
                "2 tests pass without a fault",
                "off_by_one (double adds one): 1 of 1 concerned tests fail (100.0 %)",
            ],
        )

    def test_tests_that_fail_without_a_fault(self) -> None:
        arguments = ("-k", "test_other_matter", "-k", "test_one", "--mutant=small")
        failing = {"PLANTED_TO_FAIL": "1"}
        code, _, err = self.run_tool(*arguments, environ=failing)
        self.assertEqual(code, 3)
        self.assertIn(f"1 tests fail without a fault, {TESTS}.SingleTest.test_other_matter first", err)
        code, out, _ = self.run_tool("--keep-going", *arguments, environ=failing)
        self.assertEqual(code, 0, out)
        self.assertIn("1 of 1 concerned", out)

    def test_selection(self) -> None:
        """It names each test that executes a fault and that the map does not select for the fault's file."""
        map_file = self.baseline.with_name("map")
        arguments = ("--baseline", str(self.baseline), "--mutant=off_by_one", f"--check-selection={map_file}")
        file, test = "suites/selftest/tools/planted/arithmetic.py", f"{TESTS}.PooledTest.test_unheeded"
        known = {f"{TESTS}.SingleTest.test_one": frozenset({file})}
        ImpactMap("", known, {file: ""}).write(map_file)
        code, out, err = self.run_tool(*arguments)
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"off_by_one ({file}): 15 tests selected, among them 11 of 11 that execute it", out)
        ImpactMap("", {**known, test: frozenset({"other.py"})}, {file: "", "other.py": ""}).write(map_file)
        code, out, _ = self.run_tool(*arguments)
        self.assertEqual(code, 1)
        self.assertIn("14 tests selected, among them 10 of 11 that execute it", out)
        self.assertIn(
            f"    missed: {test}\n1 mutants, 1 of them in Python; 1 times a test would not run\n", out
        )
        map_file.unlink()
        self.assertEqual(self.run_tool(*arguments)[0], 2)

    def test_no_test_of_that_name(self) -> None:
        code, _, err = self.run_tool("-k", "nothing_is_called_so")
        self.assertEqual(code, 3)
        self.assertIn("ended with exit code 5", err)

    def test_wrong_arguments(self) -> None:
        code, _, err = self.run_tool("--mutant=typo")
        self.assertEqual(code, 2)
        self.assertIn("has no mutant 'typo'; it has off_by_one, small,", err)
        with contextlib.redirect_stderr(io.StringIO()) as stream:
            self.assertEqual(mutants.main(["selftest.tools"]), 2)
        self.assertIn("there is no suites.selftest.tools.mutants", stream.getvalue())

    def test_lists_its_mutants(self) -> None:
        code, out, _ = self.run_tool("--list", "--mutant=s*")
        self.assertEqual((code, out), (0, "small: double adds one to 1\n"))

    def test_the_users_last_run_stays_the_last(self) -> None:
        with tempfile.TemporaryDirectory() as state:
            self.run_tool("-k", "test_one", "--mutant=small", environ={"HARNESS_STATE_DIR": state})
            self.assertEqual(os.listdir(state), [])


class Judging(unittest.TestCase):
    """The function ``judge``, on records and marks."""

    def judge(self, whole: bool = True, **reasons: str) -> mutants.MutantVerdict:
        records = [
            TestRecord("m.C.dies", Status.CRASHED),
            TestRecord("m.C.fails", Status.FAILED),
            TestRecord("m.C.passes", Status.PASSED),
            TestRecord("m.C.elsewhere", Status.PASSED),
            TestRecord("m.C.dies_of_it", Status.CRASHED),
            TestRecord("m.C.always_fails", Status.FAILED),
        ]
        passing = frozenset(record.id for record in records[:-1]) | {"m.C.left_out"}
        watched = {record.id for record in records} - {"m.C.elsewhere"}
        marked = watched - {"m.C.dies_of_it"}
        by_pattern = {name.replace("_", "*", 1): why for name, why in reasons.items()}
        return mutants.judge(NOWHERE, passing, records, marked, watched, by_pattern, whole=whole)

    def test_counts_what_executed_the_fault_and_passes_without(self) -> None:
        verdict = self.judge()
        self.assertEqual(verdict.concerned, {"m.C.dies", "m.C.fails", "m.C.passes", "m.C.dies_of_it"})
        self.assertEqual(verdict.killed, 3)
        self.assertEqual(verdict.unexplained, ("m.C.passes",))

    def test_a_survivor_with_a_reason_is_still_a_survivor(self) -> None:
        verdict = self.judge(_passes="it is right to")
        self.assertEqual(verdict.survivors, {"m.C.passes": "it is right to"})
        self.assertEqual((verdict.killed, verdict.unexplained, verdict.stale), (3, (), ()))

    def test_an_entry_for_a_test_that_fails_is_stale(self) -> None:
        self.assertEqual(self.judge(whole=False, _fails="?", _left="?").stale, ("*fails",))
        self.assertEqual(self.judge(_fails="?", _left="?").stale, ("*fails", "*left"))


class Planting(unittest.TestCase):
    """The hook in ``suites`` that plants faults, and the marks that it makes."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.marks = Marks(Path(directory.name))
        self.touched = 0
        for name in ("double", "is_done"):
            patch = mock.patch.object(arithmetic, name, getattr(arithmetic, name))
            self.addCleanup(patch.stop)
            patch.start()

    def touch(self) -> None:
        self.touched += 1

    def test_a_replacement_acts_on_the_calls_it_is_for(self) -> None:
        mutant = replacing(
            "x", "", f"{arithmetic.__name__}:double", lambda right, n: right(n) - 1, lambda n: n > 2
        )
        mutant.plant(self.touch)
        self.assertEqual([arithmetic.double(n) for n in (1, 2, 3, 4)], [2, 4, 5, 7])
        self.assertEqual(self.touched, 2)
        self.assertEqual(arithmetic.double.__name__, "double")

    def test_a_call_that_is_refused_is_not_concerned(self) -> None:
        replacing("x", "", f"{arithmetic.__name__}:double", lambda right, n: right(n)).plant(self.touch)
        with self.assertRaises(TypeError):
            arithmetic.double(None)  # type: ignore[arg-type]  # that is the point
        self.assertEqual(self.touched, 0)

    def test_a_call_that_cannot_be_judged_is_not_concerned(self) -> None:
        name = f"{arithmetic.__name__}:double"
        mutant = replacing("x", "", name, lambda right, n: 0, lambda n: n > 2)
        assert mutant.watch is not None
        for put in (mutant.watch, mutant.plant):
            put(self.touch)
            with self.assertRaisesRegex(TypeError, "for \\*: 'int' and 'NoneType'"):
                arithmetic.double(None)  # type: ignore[arg-type]  # that is the point
        self.assertEqual(self.touched, 0)

    def test_a_refusal_is_concerned_where_the_fault_is_that_there_is_none(self) -> None:
        name = f"{arithmetic.__name__}:double"
        mutant = replacing("x", "", name, lambda right, n: 0, lambda n: n is None, refuses=True)
        assert mutant.watch is not None
        mutant.watch(self.touch)
        with self.assertRaises(TypeError):
            arithmetic.double(None)  # type: ignore[arg-type]  # that is the point
        self.assertEqual((arithmetic.double(1), self.touched), (2, 1))

    def test_watching_leaves_the_behaviour_right(self) -> None:
        mutant = replacing("x", "", [f"{arithmetic.__name__}:{n}" for n in ("double", "is_done")], max)
        assert mutant.watch is not None
        mutant.watch(self.touch)
        self.assertEqual((arithmetic.double(3), arithmetic.is_done(3)), (6, True))
        self.assertEqual(self.touched, 2)

    def test_a_switched_one_is_planted_and_watched_by_one_function(self) -> None:
        seen: list[bool] = []

        def plant(touch: Touch, faulty: bool) -> None:
            touch()
            seen.append(faulty)

        mutant = switched("x", "", plant)
        assert mutant.watch is not None
        mutant.watch(self.touch)
        mutant.plant(self.touch)
        self.assertEqual((seen, self.touched), ([False, True], 2))

    def test_a_mark_is_made_once_and_read_back(self) -> None:
        for test in ("a.b", "a.b", "a/b " * 99):
            self.marks.make("one", test)
        self.assertEqual(self.marks.of("one"), {"a.b", "a/b " * 99})
        self.assertEqual(self.marks.of("two"), set())

    def test_a_touch_outside_of_a_test_marks_none(self) -> None:
        touch = planting._touch(self.marks, "one")
        with mock.patch.dict(os.environ):
            os.environ.pop(EnvVar.RUNNING_TEST, None)
            touch()
            os.environ[EnvVar.RUNNING_TEST] = "a.b"
            touch()
        self.assertEqual(self.marks.of("one"), {"a.b"})

    def test_a_name_that_is_no_mutant(self) -> None:
        for wanted, words in (
            (f"{SUITE}:typo", "has no such mutant; it has off_by_one, small"),
            ("typo:x", "there is no suites.typo.mutants"),
        ):
            with self.assertRaisesRegex(UsageError, words):
                planting.plant_from({planting.MUTANT: wanted})

    def test_tables_that_contradict_themselves(self) -> None:
        for attribute, value, words in (
            ("MUTANTS", (NOWHERE, NOWHERE), "two mutants have one name"),
            ("MUTANTS", (Mutant("*", "", lambda touch: None),), "or one is called '\\*'"),
            ("SURVIVORS", {"typo": {}}, "SURVIVORS speaks of 'typo'"),
        ):
            with (
                mock.patch.object(table, attribute, value),
                self.assertRaisesRegex(UsageError, words),
            ):
                planting.faults_of(SUITE)

    def test_modules_that_see_none_of_the_faults(self) -> None:
        """A suite's modules but some. One that is not there is an error: a name may have been changed."""
        every, some = planting.modules_but("spmd"), planting.modules_but("spmd", "layouts", "rules")
        self.assertEqual({*every} - {*some}, {"spmd.test_layouts", "spmd.test_rules"})
        self.assertLess({"spmd.test_meshes", "spmd.test_train_step"}, {*some})
        with self.assertRaisesRegex(ValueError, "suites.spmd has no module test_rule"):
            planting.modules_but("spmd", "layouts", "rule")

    def test_without_the_variable_nothing_of_it_is_imported(self) -> None:
        code = "import suites, sys; raise SystemExit('suites.planting' in sys.modules)"
        environ = {k: v for k, v in os.environ.items() if k != planting.MUTANT}
        self.assertEqual(subprocess.run([sys.executable, "-c", code], env=environ, check=False).returncode, 0)


class Tracing(unittest.TestCase):
    """A mark that is made in code which dynamo traces."""

    def test_marks_and_leaves_nothing_in_the_graph(self) -> None:
        import torch
        from torch._dynamo.testing import CompileCounter

        with tempfile.TemporaryDirectory() as directory:
            marks = Marks(Path(directory))
            touch = planting._touch(marks, "one")

            def traced(x: torch.Tensor) -> torch.Tensor:
                touch()
                return x + 1

            counter = CompileCounter()
            with mock.patch.dict(os.environ, {EnvVar.RUNNING_TEST: "a.b"}):
                result = torch.compile(traced, backend=counter, fullgraph=True)(torch.ones(2))
            self.assertEqual(result.tolist(), [2, 2])
            self.assertEqual((counter.frame_count, counter.op_count), (1, 1))
            self.assertEqual(marks.of("one"), {"a.b"})


if __name__ == "__main__":
    unittest.main()
