"""Tests what every registered fuzzer has to be, and how one is found by its name."""

from __future__ import annotations

import functools
import itertools
import json
import sys
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

from harness.errors import UsageError
from harness.fuzzing.hunted import FUZZERS, Hunted, Place, hunted
from harness.fuzzing.signature import Failure, Kind

# No store is asked for.
PLACE = Place(0, 1, None)
# Programs of each fuzzer that are looked at.
COUNT = 20
# Fuzzers of this project's own code, whose scripts import it.
OF_OWN_CODE = ("steps", "views")


class Sums(Hunted[tuple[int, int]]):
    """Two numbers, whose sum has to be even."""

    name = "sums"

    def drawn(self, seed: int) -> list[tuple[int, int]]:
        """The seed beside the next number."""
        return [(seed, seed + 1)]

    def script(self, program: tuple[int, int]) -> str:
        """A check of the sum."""
        return f"assert ({program[0]} + {program[1]}) % 2 == 0, 'odd: 5'"

    def simpler(self, program: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Nothing is simpler than two numbers."""
        return iter(())


class HuntedTest(unittest.TestCase):
    def test_unknown_name(self) -> None:
        with self.assertRaisesRegex(UsageError, "no fuzzer 'none'; there are .*collectives"):
            hunted("none")

    def test_script_is_what_runs(self) -> None:
        sums = Sums()
        with self.assertRaisesRegex(AssertionError, "odd"):
            sums.run((1, 2), PLACE)
        sums.run((1, 1), PLACE)

    def test_script_runs_as_the_main_module(self) -> None:
        text = "import sys\ndef f(): pass\nassert sys.modules[f.__module__].f is f, 'another module'"
        before = sys.modules["__main__"]
        with mock.patch.object(Sums, "script", lambda self, program: text):
            Sums().run((1, 1), PLACE)
        self.assertIs(sys.modules["__main__"], before)

    def test_signature(self) -> None:
        """The book is asked by the name of the fuzzer, or of that of which it is a variant."""
        failure = Failure(Kind.WRONG, "odd: #")
        self.assertEqual(str(Sums().signature((1, 2), failure)), "sums: silently wrong: odd: # | (#, #)")
        with mock.patch.object(Sums, "variant_of", "numbers"):
            self.assertEqual(Sums().signature((1, 2), failure).fuzzer, "numbers")

    def test_structure_has_no_numbers(self) -> None:
        self.assertEqual(Sums().structure((12, 3)), Sums().structure((1, 4)))


@functools.cache
def first_programs() -> list[tuple[Hunted[Any], list[Any]]]:
    """Each fuzzer of the table with the first programs of a seed."""
    fuzzers = [hunted(name) for name in sorted(FUZZERS)]
    return [(fuzzer, list(itertools.islice(fuzzer.drawn(4711), COUNT))) for fuzzer in fuzzers]


class RegisteredTest(unittest.TestCase):
    """What holds for every fuzzer of the table, by its first programs."""

    def test_names(self) -> None:
        for name in FUZZERS:
            self.assertEqual(hunted(name).name, name)
            self.assertIn(hunted(name).variant_of, ("", *FUZZERS))

    def test_programs_follow_from_the_seed(self) -> None:
        for fuzzer, programs in first_programs():
            with self.subTest(fuzzer=fuzzer.name):
                again = list(itertools.islice(fuzzer.drawn(4711), COUNT))
                self.assertEqual(programs, again)
                other = list(itertools.islice(fuzzer.drawn(4712), COUNT))
                self.assertNotEqual(programs, other)

    def test_programs_are_encoded(self) -> None:
        for fuzzer, programs in first_programs():
            with self.subTest(fuzzer=fuzzer.name):
                for program in programs:
                    value = json.loads(json.dumps(fuzzer.to_json(program)))
                    self.assertEqual(fuzzer.from_json(value), program)

    def test_scripts_are_python_that_says_what_it_needs(self) -> None:
        for fuzzer, programs in first_programs():
            with self.subTest(fuzzer=fuzzer.name):
                for program in programs:
                    text = fuzzer.script(program)
                    compile(text, "script", "exec")
                    self.assertEqual("harness" in text, fuzzer.name in OF_OWN_CODE)

    def test_simpler_programs_are_others(self) -> None:
        for fuzzer, programs in first_programs():
            with self.subTest(fuzzer=fuzzer.name):
                for program in programs:
                    for simpler in itertools.islice(fuzzer.simpler(program), COUNT):
                        self.assertNotEqual(simpler, program)


if __name__ == "__main__":
    unittest.main()
