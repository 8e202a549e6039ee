"""Tests which files a fault is found to change, on faults of every kind."""

from __future__ import annotations

import functools
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

from harness.report import text
from suites.planting import Mutant, Touch, replacing
from suites.selftest.tools.planted import arithmetic
from suites.selftest.tools.planted import mutants as table
from tools.patched_files import patched_files


class Sums:
    """A class with a method of each kind."""

    @staticmethod
    def static() -> int:
        """Of no object."""
        return 1

    @functools.wraps(arithmetic.double)
    def wrapped(self) -> int:
        """In its place there is a function of this file."""
        return 3

    @property
    def value(self) -> int:
        """Read as an attribute."""
        return 2


def _replace(name: str, value: object) -> Mutant:
    def plant(touch: Touch) -> None:
        setattr(Sums, name, value)

    return Mutant(name, "it is another", plant)


def _import(touch: Touch) -> None:
    from suites.selftest.tools.planted.odd_sums import OddSums

    setattr(OddSums, "drawn", lambda self, seed: [])  # noqa: B010 - planted


class PatchedFilesTest(unittest.TestCase):
    """``patched_files``, in forks of the test's process."""

    def test_functions(self) -> None:
        """Functions and methods of each kind count with the file that they are in; other things do not."""
        arithmetic_file = Path(arithmetic.__file__)
        here = Path(sys.modules[Sums.__module__].__file__ or "")
        for mutant, files in (
            (table.MUTANTS[0], {arithmetic_file}),
            (table.MUTANTS[4], {arithmetic_file}),
            (_replace("static", staticmethod(lambda: 0)), {here}),
            (_replace("wrapped", lambda self: 0), {arithmetic_file}),
            (_replace("value", property(lambda self: 0)), {here}),
            (_replace("__doc__", "another"), set()),
            (Mutant("nothing", "nothing is wrong", lambda touch: None), set()),
        ):
            with self.subTest(mutant=mutant.name):
                self.assertEqual(patched_files(mutant), files)
        self.assertEqual((arithmetic.double(2), Sums.static(), Sums().value), (4, 1, 2))

    def test_exported(self) -> None:
        """A function that another module imports counts with the module that has it."""
        targets = ["harness.report.text:count", "harness.impact.decision:count"]
        mutant = replacing("count", "it is another", targets, lambda original, *args: "no")
        self.assertEqual(patched_files(mutant), {Path(text.__file__)})

    def test_imported(self) -> None:
        """A module that is only imported as the fault is planted counts as any."""
        with mock.patch.dict(sys.modules):
            sys.modules.pop("suites.selftest.tools.planted.odd_sums", None)
            found = patched_files(Mutant("drawn", "nothing is drawn", _import))
        self.assertEqual({file.name for file in found}, {"odd_sums.py"})

    def test_order_of_imports(self) -> None:
        """What planting imports is imported in that order, without which some of torch cannot be."""
        names = [f"harness.imported_{number}" for number in range(9, 0, -1)]

        def plant(touch: Touch) -> None:
            sys.modules.update({name: types.ModuleType(name) for name in names})

        with mock.patch("importlib.import_module") as imports:
            patched_files(Mutant("imports", "nothing is wrong", plant))
        self.assertEqual([call.args[0] for call in imports.call_args_list], names)


if __name__ == "__main__":
    unittest.main()
