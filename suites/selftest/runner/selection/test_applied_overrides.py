"""Tests what the overrides of a configuration file mean for units, reruns and verdicts."""

from __future__ import annotations

import datetime
import unittest
from dataclasses import replace

from harness.configuration.configuration import Configuration, Given
from harness.configuration.override import Override, Quarantine, Reruns, Rule
from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.scheduling.unit import Demand, of_id
from harness.runner.selection.applied_overrides import applied, judged, notices, reruns_of, rules_of
from harness.settings import EnvVar

DAY = datetime.date(2030, 1, 2)
NEXT = DAY + datetime.timedelta(1)
QUARANTINE = Quarantine(DAY, "the port is taken", "f:3")
A, B = of_id("pkg.test_a.Case.test_x", "pkg.test_a"), of_id("pkg.test_b.Case.test_y", "pkg.test_b")
CONFIGURATION = Configuration(
    overrides=(
        Override(
            ("*.test_x",), Rule(slots=2, ranks="pooled", reruns=Reruns(1), environment={"A": "1"}), "f:1"
        ),
        Override(("pkg.test_a",), Rule(slots=9, timeout_s=3.0, quarantine=QUARANTINE), "f:2"),
        Override(("pkg.gone",), Rule(exclusive=True), "f:4"),
    )
)


class RulesTest(unittest.TestCase):
    """``rules_of``: which rule a test has."""

    def test_patterns(self) -> None:
        """Patterns are about ids, modules and classes, as --include's; a test without a rule has none."""
        rules = rules_of([A, B], CONFIGURATION, chosen=(), own=())
        self.assertEqual(set(rules), {A.id})
        rule = rules[A.id]
        self.assertEqual((rule.slots, rule.timeout_s, rule.quarantine), (2, 3.0, QUARANTINE))
        self.assertEqual(reruns_of(rules), {A.id: Reruns(1)})

    def test_precedence(self) -> None:
        """The command line and the environment go before the file."""
        for chosen, own, what in (
            (("reruns",), (), "reruns"),
            (("until_fail",), (), "reruns"),
            (("ranks",), (), "ranks"),
            ((), (EnvVar.RANKS,), "ranks"),
        ):
            with self.subTest(chosen, own=own):
                rule = rules_of([A], CONFIGURATION, chosen=chosen, own=own)[A.id]
                self.assertIsNone(getattr(rule, what))
                self.assertEqual(rule.slots, 2)
        self.assertEqual(rules_of([A], CONFIGURATION, chosen=(), own=("A",))[A.id].environment, {})

    def test_reruns_of_all(self) -> None:
        """What the file says of all tests holds where no override says otherwise."""
        everywhere = {"reruns": Given(Reruns(3, 1.0), "f:9")}
        rules = rules_of([A, B], replace(CONFIGURATION, values=everywhere), chosen=(), own=())
        self.assertEqual(reruns_of(rules), {A.id: Reruns(1), B.id: Reruns(3, 1.0)})


class AppliedTest(unittest.TestCase):
    """``applied``: the unit that the scheduler and the worker get."""

    def test_unit(self) -> None:
        """Each part is where it is read; what a rule does not say stays."""
        unit = replace(A, demand=Demand(ranks=2, cpu_slots=5, exclusive=True), timeout_s=60.0)
        rule = Rule(timeout_s=2.5, slots=1, ranks="threads", environment={"B": "2"}, group="g")
        changed = applied(unit, rule)
        self.assertEqual(changed.demand, Demand(ranks=2, cpu_slots=1, exclusive=True, group="g"))
        self.assertEqual(changed.timeout_s, 2.5)
        variables = {"B": "2", EnvVar.RANKS: "threads", EnvVar.TEST_TIMEOUT: "2.5"}
        self.assertEqual(dict(changed.environ), variables)
        self.assertEqual(applied(unit, Rule(exclusive=False)).demand, Demand(ranks=2, cpu_slots=5))
        self.assertIs(applied(unit, None), unit)


class QuarantineTest(unittest.TestCase):
    """``judged`` and ``notices``: failures that do not count, up to a day."""

    def test_judged(self) -> None:
        """A failure counts as an expected one until the day is over; a pass or a skip is one always."""
        rules = {A.id: Rule(quarantine=QUARANTINE)}
        for test_id, status, today, verdict in (
            (A.id, Status.FAILED, DAY, Status.XFAILED),
            (A.id, Status.CRASHED, DAY, Status.XFAILED),
            (A.id, Status.TIMED_OUT, DAY, Status.XFAILED),
            (A.id, Status.FAILED, NEXT, Status.FAILED),
            (A.id, Status.PASSED, DAY, Status.PASSED),
            (A.id, Status.SKIPPED, DAY, Status.SKIPPED),
            (B.id, Status.FAILED, DAY, Status.FAILED),
        ):
            with self.subTest(test_id, status=status, today=today):
                record = judged(TestRecord(test_id, status, reason="why"), rules, today)
                self.assertEqual(record.status, verdict)
                self.assertEqual("quarantine" in record.extra, verdict is Status.XFAILED)
        record = judged(TestRecord(A.id, Status.FAILED, reason="no port"), rules, DAY)
        self.assertEqual(record.reason, "in quarantine until 2030-01-02: the port is taken (failed: no port)")

    def test_notices(self) -> None:
        """A quarantine that is over and, where all tests run, an override of none are told."""
        rules = rules_of([A, B], CONFIGURATION, chosen=(), own=())
        over = f"and failures count, of 1 test: {A.id}"
        for today, all_run, said in (
            (DAY, False, []),
            (DAY, True, ["f:4: the override is about no test: pkg.gone"]),
            (
                NEXT,
                False,
                [f"f:3: the quarantine is over since {NEXT}, {over}"],
            ),
        ):
            with self.subTest(today, all_run=all_run):
                self.assertEqual(notices(CONFIGURATION, rules, [A, B], today, all_run=all_run), said)


if __name__ == "__main__":
    unittest.main()
