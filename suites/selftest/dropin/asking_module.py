"""A test module that ranks import themselves, as it asks which process it is in, and what it imports first.

Each process notes beside them what it does: a line with what and, of the first import, by which process.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

FIRST = """
import contextvars, os
contextvars.ContextVar("made by an import").set(1)  # as a new process would have it, too
IMPORTED_BY = os.getpid()
NOTES = os.path.join(os.path.dirname(__file__), "notes")

def note(what):
    with open(NOTES, "a") as file:
        file.write(f"{what} {IMPORTED_BY}\\n")

note("import")
print("said by the import")
"""
#: To be written where ``made_first.py`` has ``FIRST``.
ASKING = """
import made_first
import multiprocessing, os
from harness import MultiProcessTestCase
IN_CHILD, HERE = multiprocessing.current_process().name != "MainProcess", os.getpid()

class T(MultiProcessTestCase):
    world_size = 2
    import_in_ranks = True

    def test_it(self):
        self.assertEqual((IN_CHILD, HERE), (True, os.getpid()))
        made_first.note("rank")
"""


def noted(directory: Path) -> tuple[Counter[str], int]:
    """How often what was noted there since the last time, and of how many first imports the ranks know."""
    notes = directory / "notes"
    lines = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    notes.unlink(missing_ok=True)
    return Counter(what for what, _ in lines), len({by for what, by in lines if what == "rank"})
