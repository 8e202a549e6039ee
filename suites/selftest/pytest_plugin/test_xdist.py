"""Tests the plugin with real workers of pytest-xdist: what runs at once, and what the controller is told."""

from __future__ import annotations

import itertools
import json
import unittest

from harness.pytest_plugin.xdist import shared_capacity
from suites.selftest.pytest_plugin.runs import PytestCase
from suites.selftest.targets import plugins
from suites.targets.hostmem_device.library import missing

OVERLAP = """
def note(event, slots):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps([time.monotonic(), event, slots]) + "\\n")

class T(MultiProcessTestCase):
    world_size = 8

    def _noted(self):
        if self.rank == 0:
            note("begin", self.SLOTS)
            time.sleep(0.2)  # long enough to overlap, if it could
            note("end", self.SLOTS)

class Large(T):
    SLOTS = 2
    test_1 = test_2 = test_3 = test_4 = T._noted

class Alone(T):
    world_size = 2
    SLOTS = 100

    @exclusive
    def test_alone(self): self._noted()

@pytest.mark.parametrize("n", range(6))
def test_without_ranks(n):
    note("begin", 0)
    time.sleep(0.05)
    note("end", 0)
"""


# Which locks of the workers' directory nobody else can take while a test's fixtures are set up.
HELD = """
import json, os
import pytest
from pathlib import Path
from filelock import FileLock, Timeout

@pytest.fixture(autouse=True)
def held(request):
    names = []
    for file in Path(request.config.workerinput["torch_harness_slots"]).iterdir():
        try:
            with FileLock(file).acquire(blocking=False):
                pass
        except Timeout:
            names.append(file.name)
    with open(os.environ["HELD"], "a") as file:
        file.write(json.dumps([request.node.name, sorted(names)]) + "\\n")
"""

# Each worker has one test, which takes all slots. Both come to the budget before one is let in, and that one
# goes on when the other one has got in too, or holds the gate: then it waits for slots.
MEETING = """
import os, time
import pytest
from pathlib import Path

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    given = item.config.workerinput
    os.environ["SLOTS"] = given["torch_harness_slots"]
    Path("came-" + given["workerid"]).touch()
    while len(list(Path().glob("came-*"))) < 2:
        time.sleep(0.01)
    return (yield)
"""
MET = """
import json
from pathlib import Path
from filelock import FileLock, Timeout
from harness import cpu_slots

def gate_is_held():
    try:
        with FileLock(Path(os.environ["SLOTS"], "gate-0")).acquire(blocking=False):
            return False
    except Timeout:
        return True

class T(MultiProcessTestCase):
    world_size = 2

    @cpu_slots(1000)
    def test_1(self):
        if self.rank == 0:
            begin = time.monotonic()
            Path("began-" + self.id()).touch()
            while len(list(Path().glob("began-*"))) < 2 and not gate_is_held():
                time.sleep(0.01)
            note = [os.environ["SLOTS"], begin, time.monotonic()]
            Path("note-" + self.id()).write_text(json.dumps(note))

    test_2 = test_1
"""


class WorkersTest(PytestCase):
    """Real workers of pytest-xdist."""

    def test_held(self) -> None:
        """What a test holds: slots by its ranks; all of them, and the door, where it runs alone."""
        self.write("test_it.py", "import json\nfrom harness import exclusive\n" + OVERLAP)
        self.write("conftest.py", HELD)
        notes = self.project / "held"
        run = self.pytest("-n1", "-k", "1 or alone", HELD=str(notes), NOTES=str(self.project / "notes"))
        self.assertEqual(run.counts, {"passed": 3}, run.out)
        found = dict(json.loads(line) for line in notes.read_text().splitlines())
        slots = [f"slot-{n}" for n in range(shared_capacity().slots)]
        self.assertEqual(
            found,
            {
                "test_1": slots[:2],
                "test_alone": ["door-0", *slots, "without-ranks-0"],
                "test_without_ranks[1]": ["without-ranks-0"],
            },
        )

    def test_overlap(self) -> None:
        """With more workers than slots no two tests that need all slots overlap, and one runs alone.

        Waiting does not count for pytest-timeout.
        """
        self.write("test_it.py", "import json\nfrom harness import exclusive\n" + OVERLAP)
        notes = self.project / "notes"
        run = self.pytest(
            "-n3", "--dist=load", "--maxschedchunk=1", "-p", "timeout", "--timeout=100", NOTES=str(notes)
        )
        self.assertEqual(run.counts, {"passed": 11}, run.out)
        found = sorted(json.loads(line) for line in notes.read_text().splitlines())
        running = list(
            itertools.accumulate((slots if event == "begin" else -slots) for _, event, slots in found)
        )
        self.assertEqual(max(running), 100, found)
        self.assertFalse({102, 4} & set(running), found)
        (began,) = (at for at, event, slots in found if (event, slots) == ("begin", 100))
        (ended,) = (at for at, event, slots in found if (event, slots) == ("end", 100))
        self.assertEqual([each for each in found if began < each[0] < ended], [])

    def test_one_budget(self) -> None:
        """Two workers take their slots from one directory: a test that needs all waits for the other's."""
        self.write("test_it.py", MET)
        self.write("conftest.py", MEETING)
        run = self.pytest("-n2")
        self.assertEqual(run.counts, {"passed": 2}, run.out)
        self.assertEqual(len(list(self.project.glob("came-*"))), 2)
        notes = [json.loads(file.read_text()) for file in self.project.glob("note-*")]
        self.assertEqual(len({directory for directory, _, _ in notes}), 1, notes)
        (_, _, ended), (_, began, _) = sorted(notes, key=lambda note: note[1])
        self.assertLess(ended, began, "tests that each need all slots ran at the same time")

    @unittest.skipIf(missing(), "hostmem has to be compiled")
    def test_asserts(self) -> None:
        """Assert statements tell their values in a module of which a class has had ranks before a function.

        A worker has threads, so the server of its ranks is a new interpreter, which imports the module.
        """
        self.write(
            "test_it.py",
            """
            class T(MultiProcessTestCase):
                world_size = 2

                def test_method(self):
                    values = [self.rank]
                    assert values == [2]

            @pytest.mark.ranks(2, backend=None)
            def test_function(rank_context):
                values = [rank_context.rank]
                assert values == [3]
            """,
        )
        run = self.pytest("-n1", "-p", "no:randomly")
        self.assertEqual(run.counts, {"failed": 2}, run.out)
        for expected in ("assert [0] == [2]", "assert [0] == [3]"):
            self.assertIn(f"AssertionError: {expected}", run.out)

    def test_accelerators(self) -> None:
        """Of a target's devices workers share one lock: tests on them run one after the other."""
        code = "from harness.pytest_plugin import xdist\nprint(xdist.shared_capacity().accelerators)"
        target = {"HARNESS_PLUGIN": "suites.targets.hostmem", "HOSTMEM_DEVICES": "4"}
        done = plugins.run(self.project, "-c", code, environ=target)
        self.assertEqual(done.stdout, "1\n", done.stderr)  # where a build of torch for CUDA may warn


if __name__ == "__main__":
    unittest.main()
