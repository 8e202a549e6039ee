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

    @unittest.skipIf(missing(), "hostmem has to be compiled")
    def test_accelerators(self) -> None:
        """Of a target's devices workers share one lock: tests on them run one after the other."""
        code = "from harness.pytest_plugin import xdist\nprint(xdist.shared_capacity().accelerators)"
        target = {"HARNESS_PLUGIN": "suites.targets.hostmem", "HOSTMEM_DEVICES": "4"}
        done = plugins.run(self.project, "-c", code, environ=target)
        self.assertEqual((done.stdout, done.stderr), ("1\n", ""))


if __name__ == "__main__":
    unittest.main()
