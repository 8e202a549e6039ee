"""Tests that a module which ranks import themselves is listed in a fork, and what a run imports how often."""

from __future__ import annotations

import faulthandler
import os
import signal
import unittest
from collections import Counter
from collections.abc import Callable
from typing import ClassVar
from unittest import mock

from harness.runner.messages import Loaded
from harness.runner.worker_process import forked_listing
from harness.runner.worker_process.forked_listing import ForkedListing
from harness.runner.worker_process.listing import Listing
from harness.settings import EnvVar
from harness.system.signals import WORKER_STACKS
from suites.selftest.dropin.asking_module import ASKING, FIRST, noted
from suites.selftest.runner.runs import Finished, RunnerCase

PYTEST = "import pytest\npytestmark = pytest.mark.filterwarnings('default')\n"


class ForkedListingTest(RunnerCase):
    """Runs of ``run_tests.py --drop-in`` over a module that asks which process it is in."""

    imports: ClassVar = ("torch",)

    def play(self, body: str, *others: str) -> tuple[Finished, Counter[str]]:
        """Runs the module, and returns what its processes have noted."""
        for name, text in (("made_first", FIRST), ("test_made", body)):
            (self.directory / f"{name}.py").write_text(text)
        run = self.run_tests("--drop-in", "test_made.py", *others)
        notes, _ = noted(self.directory)
        return run, notes

    def test_imported_once(self) -> None:
        """What the module imports first is imported once for zygote, worker and ranks, by pytest as well."""
        for name, more in (("unittest", ""), ("pytest", PYTEST)):
            with self.subTest(name):
                run, notes = self.play(ASKING + more)
                self.assertEqual(run.code, 0, run.out)
                self.assertIn("1 passed", run.out)
                self.assertEqual(notes, {"import": 1, "rank": 2})

    def test_beside_another_module(self) -> None:
        """Not so where the zygote imports others as well, of whose effects such ranks are to know nothing."""
        self.write("test_other", "class T(unittest.TestCase):\n    def test(self): pass\n")
        run, notes = self.play(ASKING, "test_other.py")
        self.assertEqual(run.code, 0, run.out)
        self.assertIn("2 passed", run.out)
        self.assertGreater(notes["import"], 1)

    def test_import_that_fails(self) -> None:
        """An error of the import is the module's, and one that ends the fork is told as ever."""
        for body, text in (
            ("asks = 'current_process()'\n1 / 0\n", "ZeroDivisionError"),
            ("import os  # current_process()\nos._exit(7)\n", "exit code 7"),
        ):
            with self.subTest(text):
                run, _ = self.play(body)
                self.assertEqual(run.code, 1, run.out)
                self.assertIn(text, run.out)


class HangTest(unittest.TestCase):
    """A fork whose import hangs, made by this process in the place of a zygote."""

    def test_stacks(self) -> None:
        """The signal by which the zygote is asked for its stack reaches the fork."""
        readable, writable = os.pipe()
        self.addCleanup(os.close, readable)
        self.addCleanup(signal.signal, WORKER_STACKS, signal.SIG_DFL)
        self.addCleanup(faulthandler.unregister, WORKER_STACKS)

        def import_it(_name: str, leave: Callable[[str], bool]) -> Listing:
            if not leave("file"):
                signal.pthread_sigmask(signal.SIG_BLOCK, [WORKER_STACKS])
                os.write(writable, b"ready ")
                signal.sigwait([WORKER_STACKS])
                os._exit(os.write(writable, b"asked"))
            return Listing()

        ready = mock.Mock(**{"prepare.return_value": True})
        patches = mock.patch.multiple(forked_listing, list_module=import_it, _home=lambda: ready)
        with patches, mock.patch.dict(os.environ, {EnvVar.DROP_IN: "1"}):
            forked = ForkedListing("made")
            forked.list()
        os.close(writable)
        self.assertEqual(os.read(readable, 6), b"ready ")
        signal.raise_signal(WORKER_STACKS)
        self.assertIsNone(forked.result(Loaded("made", [])))
        self.assertEqual(os.read(readable, 6), b"asked")


if __name__ == "__main__":
    unittest.main()
