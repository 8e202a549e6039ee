"""Tests a pooled rank, which runs test after test: what each test starts from, and what its report says."""

from __future__ import annotations

import dataclasses
import os
import unittest
from collections.abc import Callable
from pathlib import Path

from harness.communication import call_log
from harness.communication_call import Signature
from harness.outcomes import RankOutcome, Status
from harness.protocol import Launch, ModuleRef, Release, RepeatLaunch
from harness.ranks.processes.module_import import CURRENT_TEST
from harness.ranks.processes.spawn import exec_rank
from suites.selftest.ranks.processes.one_rank import LEFT, Body, RankCase, launch


class PooledTest(RankCase):
    """A pooled rank, which runs test after test."""

    def run_tests(self, *tests: Launch | RepeatLaunch | Callable[[], None]) -> list[RankOutcome]:
        """Runs the tests, calls the functions between them, releases the rank; returns the outcomes."""
        outcomes = []
        for test in tests:
            if callable(test):
                test()
            else:
                self.send(test)
                outcomes.append(self.outcome())
        self.send(Release())
        self.assertEqual(self.exit_code(), 0)
        return outcomes

    def module(self, source: str) -> ModuleRef:
        """Returns a module that is a file of this source."""
        file = Path(self.temporary, "imported_by_rank.py")
        file.write_text(source)
        self.addCleanup(file.unlink)
        return ModuleRef("imported_by_rank", str(file))

    def test_tests_in_turn(self) -> None:
        """One process runs all requests and their repetitions, and exits with 0 even if one failed."""
        self.start(launch("", pooled=True))
        outcomes = self.run_tests(launch("passes"), RepeatLaunch("fails", "g"), launch("skips"))
        self.assertEqual([o.status for o in outcomes], [Status.PASSED, Status.FAILED, Status.SKIPPED])
        self.assertEqual([o.pid for o in outcomes], [self.pid] * 3)

    def test_repeated_request(self) -> None:
        """A repeated request has its own file and the further arguments of the request before it."""
        self.start(launch("", pooled=True))
        first = launch("prints", file_name="f", kwargs={"n": 5})
        self.run_tests(first, RepeatLaunch("prints", "g"), launch("prints", file_name="h"))
        self.assertEqual(self.read(self.output), "f {'n': 5}g {'n': 5}h {}")

    def test_another_class(self) -> None:
        """A request for another class runs that class, and a repetition stays with it."""
        self.start(launch("", pooled=True))
        another = launch("passes", qualname="Another")
        self.run_tests(launch("passes"), another, RepeatLaunch("passes", "g"), launch("passes"))
        self.assertEqual(self.read(self.output), "AnotherAnother")

    def test_output_before_report(self) -> None:
        """All output of a test, an unfinished line too, is there before the report of the test."""
        self.start(launch("", pooled=True))

        def check() -> None:
            os.set_blocking(self.output, False)
            self.assertEqual(os.read(self.output, 100), b"file {}")

        self.run_tests(launch("prints"), check)

    def test_leak(self) -> None:
        """What a test leaves changed is in its own report, and not in the report of the next test."""
        self.start(launch("", pooled=True))
        first, second = self.run_tests(launch("leaves_variable"), RepeatLaunch("passes", "g"))
        self.assertEqual(first.left, (f"environment: {LEFT}",))
        self.assertEqual(second.left, ())

    def test_import_is_no_leak(self) -> None:
        """A thread that the import of the test's module starts is not the test's leak."""
        source = (
            f"import threading\nfrom {Body.__module__} import Body\n"
            "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        )
        self.start(launch("", pooled=True))
        (outcome,) = self.run_tests(launch("passes", module=self.module(source)))
        self.assertEqual((outcome.status, outcome.left), (Status.PASSED, ()))

    def test_surroundings(self) -> None:
        """A request's environment is the test's, and stays for a request that has the same surroundings."""
        self.start(launch("", pooled=True))
        changed = launch("prints_variable", environ={**os.environ, LEFT: "now"})
        same = launch("prints_variable", environ={}, same_surroundings=True)
        outcomes = self.run_tests(launch("prints_variable"), changed, same, launch("prints_variable"))
        self.assertEqual([o.left for o in outcomes], [()] * 4)
        self.assertEqual(self.read(self.output).split(), ["None", "now", "now", "None"])

    def test_current_test(self) -> None:
        """pytest's name of the test is that of each request, also of a whole one after it, and is no leak."""
        environ = {**os.environ, CURRENT_TEST: "m.py::first"}
        first = launch("prints_current_test", environ=environ)
        self.start(launch("", pooled=True))
        again = RepeatLaunch("prints_current_test", "g", "m.py::second")
        unchanged = RepeatLaunch("prints_current_test", "g")
        outcomes = self.run_tests(first, again, unchanged, first, again)
        self.assertEqual([(o.status, o.left) for o in outcomes], [(Status.PASSED, ())] * 5)
        names = ["m.py::first", "m.py::second", "m.py::second", "m.py::first", "m.py::second"]
        self.assertEqual(self.read(self.output).split(), names)

    def test_call_log(self) -> None:
        """A test starts with an empty call log."""
        self.start(launch("", pooled=True))

        def note() -> None:
            log = call_log.CallLog(self.log)
            log.begin(log.text(Signature("barrier", "0")), 0, 1)
            self.assertEqual(len(call_log.read(self.log)), 1)

        self.run_tests(launch("passes"), note, RepeatLaunch("passes", "g"))
        self.assertEqual(call_log.read(self.log), ())

    def test_intra_op_threads(self) -> None:
        """Each request's thread count is set, also where torch is imported by the test's module only."""
        environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        module = self.module(f"import torch\nfrom {Body.__module__} import Body\n")
        request = launch("counts_threads", module=module, environ=environ, pooled=True)
        self.start(request, exec_rank)
        counts = [dataclasses.replace(request, threads=n) for n in (3, 5, None)]
        outcomes = self.run_tests(*counts)
        self.assertEqual(self.read(self.output).split(), ["3", "5", "5"])
        self.assertEqual([o.left for o in outcomes], [()] * 3)


if __name__ == "__main__":
    unittest.main()
