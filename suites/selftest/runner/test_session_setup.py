"""Tests what the fixed inputs of a session mean for a record and for a worker, by tables."""

from __future__ import annotations

import datetime
import unittest
from dataclasses import replace

from harness.configuration.override import Quarantine, Rule
from harness.conformance_features import Feature
from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.messages import Fork, Item
from harness.runner.scheduling.plan import Attempt
from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.time_limits import TimeLimits
from harness.runner.scheduling.timings import Timings, import_key
from harness.runner.scheduling.unit import of_id
from harness.runner.session_setup import Setup
from harness.targets.known import Known

TODAY = datetime.date(2030, 1, 2)
PLAIN = of_id("m.T.test_plain", "m", environ=(("A", "of the unit"), ("B", "of the unit")))
FEATURE = Feature("a section", "a row", (("dtype", "float32"),))
FEATURED = of_id("m.T.test_featured", "m", feature=FEATURE)
SETUP = Setup(
    units={unit.id: unit for unit in (PLAIN, FEATURED)},
    timings=Timings(),
    capacity=Capacity(1),
    limits=TimeLimits(None, 0.0),
    options=Fork("", [], "", threads=2, environ={"A": "of all", "C": "of all"}),
    seed=7,
    today=TODAY,
)
BAD = TestRecord(PLAIN.id, Status.FAILED, output="printed", extra={"fixtures_s": {"m.T": 1.0}})


class CompletedTest(unittest.TestCase):
    """``Setup.completed``: what the controller adds to a record."""

    def test_chaos(self) -> None:
        """Each round of a run has delays of its own, whose seed the record has; a rerun has the same."""
        for chaos, repeat, attempt, seed in (
            (5, 1, 1, 5),
            (5, 3, 2, 7),
            (2**32 - 1, 2, 1, 0),
            (None, 2, 1, None),
        ):
            with self.subTest(chaos=chaos, repeat=repeat):
                setup, turn = replace(SETUP, chaos=chaos), Attempt(PLAIN.id, repeat=repeat, attempt=attempt)
                self.assertEqual(setup.completed(BAD, turn, None).extra.get("chaos"), seed)
                environ = setup.options_for([Item(1, "m", turn, 1)], {}).environ
                self.assertEqual(environ.get("HARNESS_CHAOS"), None if seed is None else str(seed))

    def test_attempt(self) -> None:
        """The record has its attempt and the run's seed; only one that is not fine keeps its output."""
        attempt = Attempt(PLAIN.id, repeat=3, attempt=2)
        for status, output in ((Status.FAILED, "printed"), (Status.PASSED, "")):
            with self.subTest(status):
                record = SETUP.completed(replace(BAD, status=status), attempt, None)
                said = (record.status, record.output, record.attempt, record.repeat, record.seed)
                self.assertEqual(said, (status, output, 2, 3, 7))
                self.assertEqual(record.extra, BAD.extra)

    def test_extras(self) -> None:
        """The time of the module's import joins those of its fixtures, and a feature is added."""
        record = SETUP.completed(BAD, Attempt(PLAIN.id), 0.5)
        self.assertEqual(record.extra, {"fixtures_s": {"m.T": 1.0, import_key("m"): 0.5}})
        self.assertEqual(BAD.extra, {"fixtures_s": {"m.T": 1.0}})
        featured = SETUP.completed(TestRecord(FEATURED.id, Status.PASSED), Attempt(FEATURED.id), None)
        self.assertEqual(list(featured.extra), ["feature"])

    def test_judged(self) -> None:
        """A failure that the target is known for, or that is in quarantine, is an expected one."""
        quarantine = Quarantine(TODAY, "the port is taken", "f:3")
        for setup, status, said in (
            (SETUP, Status.FAILED, ""),
            (replace(SETUP, known=(Known("m.T.*", "slow port"),)), Status.XFAILED, "known: slow port"),
            (replace(SETUP, rules={PLAIN.id: Rule(quarantine=quarantine)}), Status.XFAILED, "quarantine"),
        ):
            with self.subTest(said):
                record = setup.completed(BAD, Attempt(PLAIN.id), None)
                self.assertIs(record.status, status)
                self.assertIn(said, record.reason)


class OptionsTest(unittest.TestCase):
    """``Setup.options_for``: the options of one worker."""

    def test_environ(self) -> None:
        """A worker's own variables go before those of its tests, and these before those of all."""
        options = SETUP.options_for([Item(1, "m", Attempt(PLAIN.id))], {"B": "of the worker"})
        self.assertEqual(options.environ, {"A": "of the unit", "B": "of the worker", "C": "of all"})
        self.assertEqual(SETUP.options.environ, {"A": "of all", "C": "of all"})

    def test_threads(self) -> None:
        """A worker whose batch has a test with ranks has no thread pool, which it could not fork."""
        alone, ranks = Item(1, "m", Attempt(PLAIN.id)), Item(2, "m", Attempt(FEATURED.id), ranks=2)
        for items, threads in (([alone], 2), ([alone, ranks], None)):
            with self.subTest(items):
                self.assertEqual(SETUP.options_for(items, {}).threads, threads)


if __name__ == "__main__":
    unittest.main()
