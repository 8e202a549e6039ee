"""Tests the shard variables of each CI system, alone, together and with wrong values."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness.errors import UsageError
from harness.runner.selection.shard_variables import (
    FAMILIES,
    LARGEST_TOTAL,
    STATUS_FILE,
    VARIABLES,
    Shard,
    is_sharded,
    shard_from_environ,
    touch_status_file,
    without_shard,
)
from suites.selftest.sources import spelled_outside

BAZEL = {"TEST_SHARD_INDEX": "1", "TEST_TOTAL_SHARDS": "4"}
PYTORCH = {"SHARD_NUMBER": "2", "NUM_TEST_SHARDS": "4"}
GITLAB = {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "4"}
CIRCLE = {"CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "4"}
BUILDKITE = {"BUILDKITE_PARALLEL_JOB": "1", "BUILDKITE_PARALLEL_JOB_COUNT": "4"}
SLURM = {"SLURM_ARRAY_TASK_ID": "11", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_COUNT": "4"}
ALL = (BAZEL, PYTORCH, GITLAB, CIRCLE, BUILDKITE, SLURM)


class FromEnvironTest(unittest.TestCase):
    def test_each_family_alone_says_two_of_four(self) -> None:
        for family in ALL:
            with self.subTest(family=family):
                self.assertEqual(shard_from_environ(family), Shard(2, 4))

    def test_first_and_last_of_each_family(self) -> None:
        for family in FAMILIES:
            for number in (1, 4):
                environ = {family.index: str(family.first + number - 1), family.total: " 4 "}
                with self.subTest(environ=environ):
                    self.assertEqual(shard_from_environ(environ), Shard(number, 4))

    def test_slurm_counts_from_its_minimum_in_its_steps(self) -> None:
        table = ((0, 0, 1, 1), (7, 7, 1, 1), (10, 7, 1, 4), (1, 1, 4, 1), (13, 1, 4, 4), (16, 10, 2, 4))
        for task, first, step, number in table:
            environ = {
                "SLURM_ARRAY_TASK_ID": str(task),
                "SLURM_ARRAY_TASK_MIN": str(first),
                "SLURM_ARRAY_TASK_COUNT": "4",
                "SLURM_ARRAY_TASK_STEP": str(step),
            }
            with self.subTest(environ=environ):
                self.assertEqual(shard_from_environ(environ), Shard(number, 4))

    def test_nothing_said(self) -> None:
        table: tuple[dict[str, str], ...] = (
            {},
            dict.fromkeys(VARIABLES, ""),
            {"CI_NODE_TOTAL": "1"},
            {"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "1"},
            {"SLURM_ARRAY_TASK_MIN": "0"},
            {"PATH": "/bin"},
        )
        for environ in table:
            with self.subTest(environ=environ):
                self.assertIsNone(shard_from_environ(environ))

    def test_families_that_agree(self) -> None:
        everything = {name: value for family in ALL for name, value in family.items()}
        self.assertEqual(shard_from_environ(everything), Shard(2, 4))

    def test_any_two_families_that_disagree(self) -> None:
        for place, one in enumerate(ALL):
            for other in ALL[place + 1 :]:
                index = next(iter(other))
                environ = {**one, **other, index: str(int(other[index]) + 1)}
                with self.subTest(environ=environ):
                    self.assert_usage_error(environ, next(iter(one)), index, "2/4", "3/4")

    def test_other_totals_disagree(self) -> None:
        self.assert_usage_error({**BAZEL, **PYTORCH, "NUM_TEST_SHARDS": "5"}, "2/4", "2/5")

    def test_a_ci_system_that_did_not_split_leaves_the_word_to_another(self) -> None:
        self.assertEqual(shard_from_environ({"CI_NODE_TOTAL": "1", **PYTORCH}), Shard(2, 4))
        one_of_one = {"TEST_SHARD_INDEX": "0", "TEST_TOTAL_SHARDS": "1"}
        self.assertEqual(shard_from_environ({**one_of_one, **GITLAB}), Shard(2, 4))

    def test_one_of_a_pair(self) -> None:
        for family in (BAZEL, PYTORCH, GITLAB, CIRCLE, BUILDKITE):
            for name in family:
                with self.subTest(name=name):
                    self.assert_usage_error({name: family[name]}, *family)
        for name in SLURM:
            with self.subTest(missing=name):
                there = {n: v for n, v in SLURM.items() if n != name}
                self.assert_usage_error(there, *SLURM) if "MIN" in name else self.assert_usage_error(
                    there, name
                )

    def test_no_number(self) -> None:
        for family in ALL:
            for name in family:
                for text in ("two", "1.0", "-1", "+1", "0x1", "²", "1 of 4", "9" * 10):
                    with self.subTest(name=name, text=text):
                        self.assert_usage_error({**family, name: text}, name)

    def test_out_of_range(self) -> None:
        for family in FAMILIES:
            for number in (family.first - 1, family.first + 4):
                if number >= 0:
                    with self.subTest(name=family.index, number=number):
                        environ = {family.index: str(number), family.total: "4"}
                        self.assert_usage_error(environ, family.index, family.total)
            for total in ("0", str(LARGEST_TOTAL + 1)):
                with self.subTest(name=family.total, total=total):
                    self.assert_usage_error({family.index: "1", family.total: total}, family.total)
        for task in ("9", "14"):
            self.assert_usage_error({**SLURM, "SLURM_ARRAY_TASK_ID": task}, "SLURM_ARRAY_TASK_ID")
        between = {**SLURM, "SLURM_ARRAY_TASK_STEP": "2"}
        self.assert_usage_error(between, "SLURM_ARRAY_TASK_ID", "steps of 2")

    def test_a_wrong_family_counts_even_where_another_comes_first(self) -> None:
        self.assert_usage_error({**BAZEL, **GITLAB, "CI_NODE_INDEX": "5"}, "CI_NODE_INDEX")

    def assert_usage_error(self, environ: dict[str, str], *parts: str) -> None:
        with self.assertRaises(UsageError) as caught:
            shard_from_environ(environ)
        self.assertNotIn("\n", str(caught.exception))
        for part in parts:
            self.assertIn(part, str(caught.exception))


class IsShardedTest(unittest.TestCase):
    """``is_sharded``, by which a module that runs alone decides whether to ask for its shard at all."""

    def test_each_variable_of_a_pair(self) -> None:
        """Either variable of any family is enough, whatever its value; an empty one is as good as none."""
        for family in ALL:
            for name in family:
                with self.subTest(name=name):
                    self.assertEqual(is_sharded({name: "x"}), name != "SLURM_ARRAY_TASK_MIN")
                    self.assertFalse(is_sharded({name: ""}))

    def test_no_variable_of_a_pair(self) -> None:
        """Other variables, Slurm's step and Bazel's file among them, ask for no shard."""
        for environ in ({}, {"PATH": "/bin"}, {"SLURM_ARRAY_TASK_STEP": "2"}, {STATUS_FILE: "status"}):
            with self.subTest(environ=environ):
                self.assertFalse(is_sharded(environ))


class HomeTest(unittest.TestCase):
    """``harness/runner/selection/shard_variables.py`` as the only file that spells these variables."""

    def test_no_other_file_spells_a_name(self) -> None:
        """No other file of ``harness`` or ``tools`` has a shard variable's name as a string."""
        home = "harness/runner/selection/shard_variables.py"
        self.assertEqual(spelled_outside(home, "|".join([*VARIABLES, STATUS_FILE])), [])


class ShardTest(unittest.TestCase):
    def test_parse(self) -> None:
        for text, shard in (("1/1", Shard(1, 1)), (" 3/16 ", Shard(3, 16)), ("16/16", Shard(16, 16))):
            self.assertEqual(Shard.parse(text), shard)
            self.assertEqual(str(shard), text.strip())

    def test_parse_nonsense(self) -> None:
        for text in ("", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/10001", "1/" + "9" * 20):
            with self.subTest(text=text), self.assertRaises(UsageError):
                Shard.parse(text)

    def test_without_shard(self) -> None:
        environ = {name: value for family in ALL for name, value in family.items()}
        self.assertEqual(without_shard({**environ, "HOME": "/home"}), {"HOME": "/home"})


class StatusFileTest(unittest.TestCase):
    def test_is_touched(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "status")
            touch_status_file({"TEST_SHARD_STATUS_FILE": str(path)})
            self.assertTrue(path.exists())

    def test_unset(self) -> None:
        touch_status_file({})
        touch_status_file({"TEST_SHARD_STATUS_FILE": ""})

    def test_cannot_be_touched(self) -> None:
        with self.assertRaisesRegex(UsageError, "TEST_SHARD_STATUS_FILE"):
            touch_status_file({"TEST_SHARD_STATUS_FILE": "/nowhere/at/all"})


if __name__ == "__main__":
    unittest.main()
