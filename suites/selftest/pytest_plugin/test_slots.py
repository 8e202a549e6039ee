"""Tests the budget of slots: what a test takes, and who waits for whom."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from filelock import FileLock

from harness.pytest_plugin.slots import Need, SlotBudget, need_of, take
from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.unit import Demand
from suites.selftest.pytest_plugin.runs import PATIENCE_S, ROOT


class NeedTest(unittest.TestCase):
    """``need_of``, what a test takes of the budget."""

    def test_table(self) -> None:
        """Never more than there is; a test that must run alone takes all."""
        capacity = Capacity(slots=2, accelerators=1, memory_mb=None)
        for demand, need in (
            (Demand(ranks=4, cpu_slots=1), Need(1, 0)),
            (Demand(ranks=16, cpu_slots=4), Need(2, 0)),
            (Demand(ranks=2, accelerators=2), Need(1, 1)),
            (Demand(exclusive=True), Need(2, 1, alone=True)),
        ):
            with self.subTest(demand):
                self.assertEqual(need_of(demand, capacity), need)


class BudgetTest(unittest.TestCase):
    """Two workers' access to one budget."""

    def setUp(self) -> None:
        """Makes the access of two workers to two slots."""
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = Path(made.name)
        self.first, self.second = (self.budget(worker) for worker in (0, 1))

    def budget(self, worker: int) -> SlotBudget:
        """Returns a worker's access."""
        return SlotBudget(self.directory, Capacity(2, 0, None), worker, 2, alone=True)

    def excludes(self, held: Demand | None, wanted: Demand | None) -> bool:
        """Returns whether the second worker has to wait while the first one holds something."""
        entered = threading.Event()

        def enter() -> None:
            with self.second.held(wanted):
                entered.set()

        other = threading.Thread(target=enter)
        with self.first.held(held):
            other.start()
            waited = not entered.wait(1.0)
        other.join(PATIENCE_S)
        self.assertTrue(entered.is_set(), "it never got in")
        return waited

    def test_who_waits(self) -> None:
        """Slots run out, without ranks one waits for tests that run alone only, and they for all."""
        one, two, alone = Demand(), Demand(cpu_slots=2), Demand(exclusive=True)
        for held, wanted, waits in (
            (one, one, False),
            (one, two, True),
            (two, one, True),
            (two, None, False),
            (alone, None, True),
            (None, alone, True),
            (alone, one, True),
        ):
            with self.subTest(held=held, wanted=wanted):
                self.assertEqual(self.excludes(held, wanted), waits)

    def test_a_dead_worker_gives_back(self) -> None:
        """The slots of a process that is killed are free."""
        code = (
            "import sys; from pathlib import Path\n"
            "from harness.pytest_plugin.slots import SlotBudget\n"
            "from harness.runner.scheduling.schedule import Capacity\n"
            "from harness.runner.scheduling.unit import Demand\n"
            "budget = SlotBudget(Path(sys.argv[1]), Capacity(2, 0, None), 1, 2, alone=False)\n"
            "with budget.held(Demand(cpu_slots=2)): print('held', flush=True); sys.stdin.read()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(self.directory)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), b"held\n")
            self.assertFalse((self.directory / "gate-0").stat().st_size)
            process.kill()
            process.wait()
        with self.first.held(Demand(cpu_slots=2)):
            pass

    def test_take(self) -> None:
        """Whichever locks are free are taken, and it is waited for the rest."""
        locks = [FileLock(self.directory / f"lock-{n}", thread_local=False) for n in range(3)]
        taken = FileLock(self.directory / "lock-1", thread_local=False)
        taken.acquire()
        with contextlib.ExitStack() as held:
            take(locks, 3, held, sleep=lambda seconds: taken.release())
            self.assertTrue(all(lock.is_locked for lock in locks))
        self.assertFalse(any(lock.is_locked for lock in locks))


if __name__ == "__main__":
    unittest.main()
