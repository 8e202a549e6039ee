"""Whole runs in a git repository: the map of what tests execute, and runs of what a change can affect."""

from __future__ import annotations

import subprocess
import unittest
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from unittest import mock

from harness import errors, record
from harness.impact import impact_map
from harness.impact.impact_map import ImpactMap
from harness.runner.scheduling.unit import Unit
from harness.runner.selection import affected_tests
from harness.runner.selection.collection import Selected
from suites.selftest.runner import runs
from suites.selftest.runner.command_line.test_invocation import invocation
from suites.selftest.runner.runs import RunnerCase

SUMS = "def add(a, b):\n    return a + b\n"
OTHER = "LIMIT = 3\n\ndef times(a, b):\n    return a * b\n"
MODULE = """
from app.sums import add
from harness import {base}

class T({base}):
    world_size = 2
    def test_add(self):
        self.assertEqual(add(1, self.rank), 1 + self.rank)
    def test_other(self):
        from app.other import times
        self.assertEqual(times(2, self.rank), 2 * self.rank)
    def test_sum_again(self):
        self.test_add()
"""
PLAIN = """
from app import other

class T(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.six = other.times(2, 3)
    def test_class(self):
        self.assertEqual(self.six, 6)
    def test_process(self):
        subprocess.run([sys.executable, "-c", "from app.sums import add; add(1, 2)"], check=True)

class U(unittest.TestCase):
    def test_nothing(self):
        pass
    def test_limit(self):
        self.assertEqual(other.LIMIT, 3)
"""
FUNCTIONS = """
import pytest
from app.other import times

@pytest.fixture(scope="module")
def six():
    return times(2, 3)

def test_first(six):
    pass

def test_second(six):
    assert six == 6
"""
FAILS = """
class T(unittest.TestCase):
    def test_fails(self):
        self.fail("no")
"""
ADD = ("test_fresh.T.test_add", "test_pooled.T.test_add", "test_threads.T.test_add")
AGAIN = ("test_fresh.T.test_sum_again", "test_pooled.T.test_sum_again", "test_threads.T.test_sum_again")
OTHERS = ("test_fresh.T.test_other", "test_pooled.T.test_other", "test_threads.T.test_other")


class RepositoryCase(RunnerCase):
    """Base class of tests with a project in a git repository."""

    def setUp(self) -> None:
        """Commits a package of two modules."""
        super().setUp()
        (self.directory / "app").mkdir()
        for name, source in (("__init__", ""), ("sums", SUMS), ("other", OTHER)):
            (self.directory / "app" / f"{name}.py").write_text(source, encoding="utf-8")
        (self.directory / ".gitignore").write_text(".harness\n__pycache__\n", encoding="utf-8")
        self.git("init", "-q")
        self.commit()

    def git(self, *arguments: str) -> None:
        """Runs git, as nobody in particular."""
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=self.directory, check=True, capture_output=True)

    def commit(self) -> None:
        """Commits all that there is."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "all")

    def recorded(self) -> dict[str, str]:
        """Commits all, records it; returns the project's modules that each test executes, by the map."""
        self.commit()
        done = self.run_tests(".", "--record-map")
        self.assertIn(done.code, (0, 1), done.out + done.err)
        app = {test: sorted(f for f in files if f.startswith("app/")) for test, files in self.map().items()}
        return {test: " ".join(file[4:-3] for file in files) for test, files in app.items()}

    def map(self) -> Mapping[str, frozenset[str]]:
        """The files that each test executes."""
        return impact_map.read(self.directory / ".harness" / "impact.json.gz").tests

    def change(self, name: str, old: str, new: str) -> None:
        """Changes a file of the package."""
        path = self.directory / "app" / f"{name}.py"
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    def listed(self, *argv: str) -> tuple[tuple[str, ...], str]:
        """The tests that would run, and what is said about that."""
        done = self.run_tests(".", "--list", *argv)
        self.assertEqual(done.code, 0, done.err)
        return tuple(done.out.split()), done.err


class RanksTest(RepositoryCase):
    """Tests on ranks."""

    def test_modes(self) -> None:
        """What only ranks execute is known, in processes, in pooled ranks from test to test, in threads."""
        for mode, base in (
            ("fresh", "MultiProcessTestCase"),
            ("pooled", "MultiProcContinuousTest"),
            ("threads", "MultiThreadedTestCase"),
        ):
            self.write(f"test_{mode}", MODULE.format(base=base))
        sums = tuple(sorted((*ADD, *AGAIN)))
        wanted = {**dict.fromkeys(sums, "sums"), **dict.fromkeys(OTHERS, "other")}
        self.assertEqual(self.recorded(), wanted)
        self.change("sums", "a + b", "b + a")
        self.assertEqual(self.listed("--changed")[0], sums)
        self.assertEqual(self.listed("--affected-by", "app/other.py")[0], tuple(sorted((*sums, *OTHERS))))
        self.git("checkout", "-q", ".")
        self.assertEqual(self.listed("--affected-by", "app/other.py")[0], OTHERS)
        grouped = tuple(sorted((*ADD[1:], *AGAIN[1:], *OTHERS[1:])))  # the fresh ranks make no process group
        self.assertEqual(self.listed("--affected-by", "torch/distributed/distributed_c10d.py")[0], grouped)

    def test_spawned(self) -> None:
        """So is what ranks execute that are started as fresh processes."""
        self.write("test_spawned", MODULE.format(base="MultiProcessTestCase"))
        done = self.run_tests("test_spawned", "-k", "test_add", "--record-map", HARNESS_LAUNCHER="spawn")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("app/sums.py", self.map()["test_spawned.T.test_add"])


class ProcessTest(RepositoryCase):
    """Tests of one process."""

    def test_fixtures_and_children(self) -> None:
        """A class's fixture counts for its tests, a fixture of pytest's for those of its module."""
        self.write("test_plain", PLAIN)
        self.write("test_functions", FUNCTIONS)
        wanted = {
            "test_plain.T.test_class": "other",
            "test_plain.T.test_process": "other sums",
            "test_plain.U.test_nothing": "",
            "test_plain.U.test_limit": "",
            "test_functions.test_first": "other",
            "test_functions.test_second": "other",
        }
        self.assertEqual(self.recorded(), wanted)
        self.change("other", "a * b", "b * a")
        inside = self.listed("--changed")[0]
        self.assertEqual(inside, tuple(sorted(test for test, files in wanted.items() if "other" in files)))
        self.change("other", "LIMIT = 3", "LIMIT = 4")
        tests, said = self.listed("--changed=HEAD")
        self.assertEqual(tests, tuple(sorted(wanted)))  # each test's module imports it
        self.assertIn("6 of 6 tests can be affected by app/other.py", said)

    def test_failed_and_new(self) -> None:
        """A test that failed while it was recorded, or is new, always runs; a run says how many these are."""
        self.write("test_fails", FAILS)
        self.write("test_plain", PLAIN)
        self.assertNotIn("test_fails.T.test_fails", self.recorded())
        self.assertEqual(self.listed("--changed")[0], ("test_fails.T.test_fails",))
        self.write("test_fails", FAILS + "    def test_new(self):\n        pass\n")
        done = self.run_tests(".", "--affected-by", "app/sums.py")
        self.assertEqual(
            done.statuses, {"test_fails": "failed", "test_new": "passed", "test_process": "passed"}
        )
        said = "3 of 6 tests can be affected by app/sums.py, 2 of them not in the map yet"
        self.assertIn(said, done.out + done.err)

    def test_none(self) -> None:
        """That no test can be affected is no failure, and is said; that none is named still is one."""
        self.write("test_plain", PLAIN)
        self.recorded()
        done = self.run_tests(".", "--changed")
        self.assertEqual(done.code, 0)
        self.assertIn("nothing to run: what has changed can affect none of 4 tests", done.err)
        self.assertEqual(self.run_tests(".", "-k", "no_such", "--changed").code, 5)

    def test_recorded_in_pieces(self) -> None:
        """A later recording adds to the map, and forgets tests that are gone."""
        self.write("test_fails", FAILS.replace('fail("no")', "assertTrue(1)"))
        self.write("test_plain", PLAIN)
        self.assertIn("test_fails.T.test_fails", self.recorded())
        self.write("test_plain", PLAIN.replace("test_limit", "test_renamed"))
        self.run_tests("test_plain", "--record-map")
        wanted = ("T.test_class", "T.test_process", "U.test_nothing", "U.test_renamed")
        self.assertEqual(
            sorted(self.map()), ["test_fails.T.test_fails", *(f"test_plain.{each}" for each in wanted)]
        )

    def test_unknown(self) -> None:
        """Without a map, and where it cannot tell, all tests run, and it is said why."""
        self.write("test_plain", PLAIN)
        tests, words = self.listed("--changed")
        self.assertEqual(len(tests), 4)
        self.assertIn("all tests run: there is no map of them yet; --record-map makes one", words)
        self.recorded()
        (self.directory / "app" / "a.cpp").touch()
        tests, words = self.listed("--changed")
        self.assertEqual(len(tests), 4)
        self.assertIn("app/a.cpp has changed", words)

    def test_refused(self) -> None:
        """A file, a revision or a map that is none is a usage error, and no test runs."""
        self.write("test_plain", PLAIN)
        (self.directory / ".harness").mkdir()
        (self.directory / ".harness" / "impact.json.gz").write_text("{}")
        for argv, words in (
            (["--affected-by", "nothere.py"], "nothere.py: no such file"),
            (["--changed=nowhere"], "nowhere"),
            (["--changed"], "impact.json.gz is no map"),
            (["--record-map"], "impact.json.gz is no map"),
        ):
            done = self.run_tests(".", *argv)
            self.assertEqual((done.code, done.records), (2, ()))
            self.assertIn(words, done.err)


class OfSuitesTest(unittest.TestCase):
    """The map beside the suites."""

    def test_shipped(self) -> None:
        """It is of the suites' tests alone, and names no file of the machine that recorded it."""
        shipped = impact_map.read(affected_tests.of_suites())
        self.assertTrue(shipped.tests)
        for test in shipped.tests:
            self.assertRegex(test, r"^suites\.(?!selftest\.)")
        for file in shipped.digests:
            self.assertRegex(file, r"^(torch|suites|harness)/.*\.py$")

    def test_beside(self) -> None:
        """It selects tests not recorded here; what it lacks, or whose files changed, runs too."""
        directory = runs.new_directory(self)
        path = directory / impact_map.NAME
        asked = invocation("--affected-by", "harness/record.py", HARNESS_STATE_DIR=str(directory / "state"))
        units = tuple(Unit(f"m.T.{name}", "m", "T", name) for name in "xyz")
        files = {"harness/record.py": Path(record.__file__), "harness/errors.py": Path(errors.__file__)}
        digests = {file: impact_map.digest_of(where) for file, where in files.items()}
        tests = dict(zip(("m.T.x", "m.T.y"), (frozenset({file}) for file in files), strict=True))
        torch = metadata.version("torch").partition("+")[0]
        for changed, selected in (({}, "x z"), ({"harness/errors.py": "0"}, "x y z")):
            ImpactMap(torch, tests, {**digests, **changed}).write(path)
            with self.subTest(changed=changed), mock.patch.object(affected_tests, "of_suites", lambda: path):
                found, words = affected_tests.narrowed(asked, Selected(units), {"m": directory / "m.py"})
                self.assertEqual(" ".join(unit.method for unit in found.units), selected)
                self.assertIn("of 3 tests can be affected by harness/record.py, 1 of them not in", words[0])


if __name__ == "__main__":
    unittest.main()
