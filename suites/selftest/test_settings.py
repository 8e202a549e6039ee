"""What the environment asks for, and what happens where it asks for nonsense."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import unittest

from hypothesis import strategies as st

from harness.errors import UsageError
from harness.setting_values import LARGEST_MULTIPLIER, LARGEST_SEED, LONGEST_S
from harness.settings import (
    LAUNCHERS,
    RANK_MODES,
    RANK_OUTPUTS,
    TOO_FEW_RANKS,
    EnvVar,
    Settings,
    debugged_rank,
    slow_wanted,
    target_given,
    timeout_given,
)
from harness.variables import VARIABLES
from suites.selftest.properties import given
from suites.selftest.sources import spelled_outside

durations = st.floats(min_value=0, max_value=LONGEST_S)
settings = st.builds(
    Settings,
    timeout_s=st.floats(min_value=0, max_value=LONGEST_S, exclude_min=True),
    seed=st.integers(0, LARGEST_SEED),
    launcher=st.sampled_from((None, *LAUNCHERS)),
    ranks=st.sampled_from((None, *RANK_MODES)),
    too_few_ranks=st.sampled_from(TOO_FEW_RANKS),
    rank_output=st.sampled_from(RANK_OUTPUTS),
    strict=st.booleans(),
    log_dir=st.sampled_from((None, "logs", "/tmp/a directory")),
    conformance=st.sampled_from((None, "cells", "/tmp/a directory")),
    grace_s=durations,
    exit_grace_s=durations,
    skip_grace_s=durations,
    pdb_rank=st.none() | st.integers(0, 10**6),
    examples=st.none() | st.integers(1, 10**6),
    chaos=st.none() | st.integers(0, 2**32 - 1),
    slow=st.booleans(),
    timeout_multiplier=st.floats(min_value=0, max_value=LARGEST_MULTIPLIER, exclude_min=True),
    backend=st.none() | st.sampled_from(("gloo", "mine")),
    device=st.none() | st.just("cuda"),
    plugin=st.none() | st.sampled_from(("mine", "package.module")),
)


class FromEnvironTest(unittest.TestCase):
    def test_an_empty_environment_gives_the_defaults(self) -> None:
        self.assertEqual(Settings.from_environ({}), Settings())

    def test_empty_values_are_as_good_as_none(self) -> None:
        self.assertEqual(Settings.from_environ({v.name: "" for v in VARIABLES}), Settings())

    def test_values(self) -> None:
        table = (
            ("HARNESS_TIMEOUT", "7.5", "timeout_s", 7.5),
            ("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "300", "timeout_s", 300.0),
            ("HARNESS_TIMEOUT_MULTIPLIER", "2.5", "timeout_multiplier", 2.5),
            ("HARNESS_TIMEOUT_MULTIPLIER", "1000", "timeout_multiplier", 1000.0),
            ("HARNESS_SEED", "0", "seed", 0),
            ("HARNESS_SEED", "4294967295", "seed", 4294967295),
            ("HARNESS_LAUNCHER", "spawn", "launcher", "spawn"),
            ("HARNESS_RANKS", "threads", "ranks", "threads"),
            ("HARNESS_RANKS", "local", "ranks", "local"),
            ("HARNESS_TOO_FEW_RANKS", "skip", "too_few_ranks", "skip"),
            ("HARNESS_RANK_OUTPUT", "stream", "rank_output", "stream"),
            ("HARNESS_STRICT", "1", "strict", True),
            ("HARNESS_STRICT", "0", "strict", False),
            ("HARNESS_LOG_DIR", "some where", "log_dir", "some where"),
            ("HARNESS_GRACE", "0", "grace_s", 0.0),
            ("HARNESS_EXIT_GRACE", "2", "exit_grace_s", 2.0),
            ("HARNESS_SKIP_GRACE", " 3 ", "skip_grace_s", 3.0),
            ("HARNESS_PDB_RANK", "3", "pdb_rank", 3),
            ("HARNESS_EXAMPLES", "5000", "examples", 5000),
            ("HARNESS_CHAOS", "0", "chaos", 0),
            ("HARNESS_BACKEND", "Mine", "backend", "mine"),
            ("HARNESS_DEVICE", "cuda", "device", "cuda"),
            ("HARNESS_PLUGIN", "package.module", "plugin", "package.module"),
            ("PYTORCH_TEST_WITH_SLOW", "1", "slow", True),
            ("PYTORCH_TEST_WITH_SLOW", "0", "slow", False),
            ("PYTORCH_TEST_WITH_SLOW", "yes", "slow", False),
        )
        for name, text, field, value in table:
            with self.subTest(name=name, text=text):
                want = {**dataclasses.asdict(Settings()), field: value}
                self.assertEqual(dataclasses.asdict(Settings.from_environ({name: text})), want)

    def test_our_timeout_wins_over_upstreams(self) -> None:
        both = {"HARNESS_TIMEOUT": "5", "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "300"}
        self.assertEqual(Settings.from_environ(both).timeout_s, 5.0)

    def test_a_value_that_cannot_be_used_is_named_in_one_line(self) -> None:
        table = (
            *(("HARNESS_TIMEOUT", text) for text in ("0", "-1", "inf", "nan", "1e9", "2 min", "0x10")),
            *(("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", text) for text in ("0", "fast")),
            *(("HARNESS_TIMEOUT_MULTIPLIER", text) for text in ("0", "-2", "nan", "1001", "x2")),
            *(("HARNESS_SEED", text) for text in ("-1", "4294967296", "1.5", "²", "9" * 5000)),
            ("HARNESS_LAUNCHER", "fork"),
            ("HARNESS_LAUNCHER", "Spawn"),
            ("HARNESS_RANKS", "processes"),
            ("HARNESS_TOO_FEW_RANKS", "pass"),
            ("HARNESS_RANK_OUTPUT", "quiet"),
            ("HARNESS_STRICT", "yes"),
            ("HARNESS_GRACE", "-0.5"),
            ("HARNESS_EXIT_GRACE", "soon"),
            ("HARNESS_SKIP_GRACE", "nan"),
            ("HARNESS_PDB_RANK", "all"),
            ("HARNESS_EXAMPLES", "0"),
            ("HARNESS_CHAOS", "yes"),
        )
        for name, text in table:
            with self.subTest(name=name, text=text[:20]):
                with self.assertRaises(UsageError) as caught:
                    Settings.from_environ({name: text})
                self.assertTrue(str(caught.exception).startswith(f"{name}="), str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))


class DeadlineTest(unittest.TestCase):
    """``Settings.deadline_s``: whose deadline a test has, and how often over."""

    def test_table(self) -> None:
        """The first deadline that is asked for counts, even if it is 0; without one the settings' does."""
        for asked, seconds in (
            ((), 7.0),
            ((None, None), 7.0),
            ((None, 3.0), 3.0),
            ((9.0, 3.0), 9.0),
            ((0.0,), 0.0),
        ):
            with self.subTest(asked=asked):
                self.assertEqual(Settings(timeout_s=7.0).deadline_s(*asked), seconds)
                slower = Settings(timeout_s=7.0, timeout_multiplier=2.5)
                self.assertEqual(slower.deadline_s(*asked), 2.5 * seconds)
                test = Settings.from_environ({EnvVar.TEST_TIMEOUT: "5", EnvVar.TIMEOUT: "7"})
                self.assertEqual(test.deadline_s(*asked), 5.0)
        self.assertEqual(Settings(timeout_multiplier=1000.0).deadline_s(LONGEST_S), LONGEST_S)


class ToEnvironTest(unittest.TestCase):
    @given(settings)
    def test_another_process_reads_the_same(self, value: Settings) -> None:
        self.assertEqual(Settings.from_environ(value.to_environ()), value)

    @given(settings, settings)
    def test_what_is_passed_on_wins_over_what_is_inherited(
        self, inherited: Settings, value: Settings
    ) -> None:
        environ = {"DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "17", **inherited.to_environ(), **value.to_environ()}
        self.assertEqual(Settings.from_environ(environ), value)

    def test_only_documented_variables_are_written(self) -> None:
        self.assertLessEqual(set(Settings().to_environ()), {v.name for v in VARIABLES})


class NamesTest(unittest.TestCase):
    """``EnvVar``: each name in no other file."""

    def test_no_other_file_spells_a_name(self) -> None:
        """No other file of ``harness`` or ``tools`` has a string that is the name of such a variable."""
        names = (value for name, value in vars(EnvVar).items() if not name.startswith("_"))
        pattern = "|".join(["HARNESS_[A-Z0-9_]+", *names])
        # What the text of a generated script has in the places of a number and a backend.
        placeholders = ("harness/fuzzing/script.py", ("WORLD_SIZE", "BACKEND"))
        elsewhere = [
            place
            for place in spelled_outside("harness/settings.py", pattern)
            if not (place.startswith(placeholders[0]) and place.endswith(placeholders[1]))
        ]
        self.assertEqual(elsewhere, [])


class NarrowReadersTest(unittest.TestCase):
    """The functions that read one variable; a wrong value of another one does not stop their callers."""

    def test_slow_wanted(self) -> None:
        """Only ``1`` asks for slow tests."""
        for text, wanted in (("1", True), ("0", False), ("yes", False), ("", False)):
            with self.subTest(text=text):
                self.assertIs(slow_wanted({"PYTORCH_TEST_WITH_SLOW": text, "HARNESS_GRACE": "soon"}), wanted)
        self.assertFalse(slow_wanted({}))

    def test_target_given(self) -> None:
        """Each of three variables counts where it is not empty; upstream's ``BACKEND`` does not."""
        for name in ("HARNESS_BACKEND", "HARNESS_DEVICE", "HARNESS_PLUGIN"):
            for value, given_one in (("gloo", True), (" ", False)):
                with self.subTest(name=name, value=value):
                    self.assertIs(target_given({name: value}), given_one)
        self.assertFalse(target_given({"BACKEND": "nccl"}))

    def test_timeout_given(self) -> None:
        """``HARNESS_TIMEOUT`` counts where it is not empty; upstream's variable does not."""
        for environ, given_one in (
            ({"HARNESS_TIMEOUT": "5"}, True),
            ({"HARNESS_TIMEOUT": " "}, False),
            ({"DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "5"}, False),
            ({}, False),
        ):
            with self.subTest(environ=environ):
                self.assertIs(timeout_given(environ), given_one)

    def test_debugged_rank(self) -> None:
        """A whole number is a rank, nothing is no rank, and anything else is a UsageError."""
        for text, rank in (("0", 0), ("12", 12), (" 3 ", 3), ("", None)):
            with self.subTest(text=text):
                self.assertEqual(debugged_rank({"HARNESS_PDB_RANK": text, "HARNESS_GRACE": "soon"}), rank)
        with self.assertRaisesRegex(UsageError, "HARNESS_PDB_RANK='all'"):
            debugged_rank({"HARNESS_PDB_RANK": "all"})


class ImportTest(unittest.TestCase):
    def test_a_light_import(self) -> None:
        code = (
            "import sys, harness.settings; print(*{'torch', 'argparse', 'rich', 'numpy'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "")


if __name__ == "__main__":
    unittest.main()
