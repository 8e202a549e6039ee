"""Tests what a cell records, in a test without ranks and where nothing is recorded."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness.conformance import cells
from harness.conformance.cells import Recorded, cell, declared_or_recorded, directory_of, read, trial

TEST = "a.test_b.Case.test_c"


class Recording(unittest.TestCase):
    """Cells of this thread, recorded in a new directory."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        before = getattr(cells._RUNNING, "recorder", None)
        self.addCleanup(setattr, cells._RUNNING, "recorder", before)
        self.record()

    def record(self, rank: int = 0) -> None:
        """Records the cells of one more attempt at the test."""
        cells.install(directory_of(str(self.root), TEST), rank, 2)

    def ends(self) -> list[tuple[str, str | None, str]]:
        """Returns operation, end and what was said of each recorded cell."""
        return [(each.operation, each.end, each.said) for each in Recorded(self.root).of(TEST)]


class CellTest(Recording):
    """``cell``: how it ends."""

    def test_ends(self) -> None:
        """Each kind of exception is an end of its own, and goes on."""
        for error, end, said in (
            (None, "right", ""),
            (AssertionError("not equal\n\n 1 and 2\nat 3\nmore"), "wrong", "not equal 1 and 2 at 3"),
            (RuntimeError("\nno such dtype"), "refused", "RuntimeError: no such dtype"),
            (ValueError(), "refused", "ValueError: "),
            (unittest.SkipTest("not declared by target x: y"), "undeclared", "not declared by target x: y"),
            (unittest.SkipTest("no fork here"), "skipped", "no fork here"),
        ):
            with self.subTest(repr(error)):
                self.record()
                try:
                    with cell("compile"):
                        if error is not None:
                            raise error
                except type(error) as caught:  # type: ignore[misc]  # None is raised in no row
                    self.assertIs(caught, error)
                self.assertEqual(self.ends(), [("compile", end, said)])

    def test_left_open(self) -> None:
        """A cell in which a rank ends its process has no end."""
        with self.assertRaises(SystemExit), cell("compile"):
            raise SystemExit(3)
        self.assertEqual(self.ends(), [("compile", None, "")])

    def test_coordinates(self) -> None:
        """Coordinates are words in the order of their names; rank, number and world size are added."""
        with cell("one"):
            pass
        with cell("two", way="async", size=3):
            pass
        _, found = Recorded(self.root).of(TEST)
        self.assertEqual((found.rank, found.number, found.world_size), (0, 2, 2))
        self.assertEqual(found.coordinates, (("way", "async"), ("size", "3")))

    def test_ranks_and_attempts(self) -> None:
        """The ranks of the last attempt count; a test that recorded nothing has no cells."""
        with cell("first"):
            pass
        directory = directory_of(str(self.root), TEST)
        for rank in (1, 0):
            cells.install(directory, rank, 2)
            with cell("second"):
                pass
        self.assertEqual(
            [(e.operation, e.rank) for e in Recorded(self.root).of(TEST)], [("second", 0), ("second", 1)]
        )
        self.assertEqual(Recorded(self.root).of("another"), ())
        self.assertEqual(Recorded(self.root / "nowhere").of(TEST), ())

    def test_unfinished_line(self) -> None:
        """What a rank was writing when it died is left out."""
        began = b'[1, 2, "gather", [["dtype", "bool"]], true]\n'
        for data, ends in (
            (b"", []),
            (began, [None]),
            (began + b'[1, "rig', [None]),
            (began + b'[1, "right", ""]\n[2, 2, "sca', ["right"]),
        ):
            with self.subTest(data):
                self.assertEqual([each.end for each in read(0, data)], ends)


class DeclarationTest(Recording):
    """Cells of what gloo, the default target, declares or does not."""

    def test_declared(self) -> None:
        """Operation, dtype and reduction together say whether a cell is declared."""
        for operation, coordinates, declared in (
            ("all_reduce", {"dtype": "float32", "reduction": "sum"}, True),
            ("all_reduce", {"dtype": "float32", "reduction": "premul_sum"}, False),
            ("broadcast", {"dtype": "int16", "way": "sync"}, False),
            ("compile", {"dtype": "int16"}, True),
        ):
            with self.subTest(operation, **coordinates):
                self.record()
                with cell(operation, **coordinates):
                    pass
                (found,) = Recorded(self.root).of(TEST)
                self.assertEqual(found.declared, declared)

    def test_trial(self) -> None:
        """A failure goes on where the target declares the cell, and only there."""
        with trial("broadcast", dtype="int16"):
            raise RuntimeError("Invalid scalar type")
        with self.assertRaises(RuntimeError), trial("broadcast", dtype="int32"):
            raise RuntimeError("broken")
        self.assertEqual([end for _, end, _ in self.ends()], ["refused", "refused"])

    def test_declared_or_recorded(self) -> None:
        """What is not declared is tried where cells are recorded."""
        self.assertTrue(declared_or_recorded("broadcast", dtype="int16"))
        cells.install("")
        self.assertFalse(declared_or_recorded("broadcast", dtype="int16"))
        self.assertTrue(declared_or_recorded("broadcast", dtype="int32"))


class NotRecordedTest(Recording):
    """Where no cells are recorded."""

    def test_nothing(self) -> None:
        """A cell writes nothing and lets every exception through, and so does a trial."""
        cells.install("")
        for context in (cell, trial):
            with self.assertRaises(RuntimeError), context("broadcast", dtype="int16"):
                raise RuntimeError("Invalid scalar type")
        self.assertEqual(list(self.root.iterdir()), [])
        self.assertEqual(directory_of(None, TEST), "")


if __name__ == "__main__":
    unittest.main()
