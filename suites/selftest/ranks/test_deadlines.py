"""Tests the supervisor's one decision by a table of cases, and by properties over every possible view."""

from __future__ import annotations

import math
import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from harness.ranks.deadlines import (
    KILL_WAIT_S,
    STACKS_WAIT_S,
    START_WAIT_S,
    TERM_WAIT_S,
    Action,
    EndReason,
    Limits,
    NextStep,
    SupervisorView,
    decide,
    start_wait_of,
)
from harness.settings import Settings
from harness.system import processors
from suites.selftest.properties import given

LIMITS = Limits(timeout_s=100.0, grace_s=1.0, skip_grace_s=10.0, exit_grace_s=5.0)
RUNNING = SupervisorView(started=0.0, unsettled=2, alive=2)

# What has been seen, at which time -> what to do, why, and otherwise until when to wait.
TABLE: list[tuple[str, dict[str, Any], float, Action, EndReason | None, float]] = [
    ("nothing yet", {}, 50.0, Action.WAIT, EndReason.TIMEOUT, 100.0),
    ("the deadline", {}, 100.0, Action.TAKE_STACKS, EndReason.TIMEOUT, -math.inf),
    ("a failure", {"first_bad": 50.0}, 50.5, Action.WAIT, EndReason.FAILURE, 51.0),
    ("its grace is over", {"first_bad": 50.0}, 51.0, Action.TAKE_STACKS, EndReason.FAILURE, -math.inf),
    ("a skip", {"first_skip": 50.0}, 59.0, Action.WAIT, EndReason.DIVERGENCE, 60.0),
    ("its grace is over", {"first_skip": 50.0}, 60.0, Action.TAKE_STACKS, EndReason.DIVERGENCE, -math.inf),
    (
        "a skip, then a failure",
        {"first_skip": 50.0, "first_bad": 52.0},
        52.5,
        Action.WAIT,
        EndReason.FAILURE,
        53.0,
    ),
    ("a deadlock", {"deadlocked": 50.0}, 50.0, Action.TAKE_STACKS, EndReason.DEADLOCK, -math.inf),
    (
        "none can go on after a failure",
        {"first_bad": 50.0, "deadlocked": 50.5},
        50.5,
        Action.TAKE_STACKS,
        EndReason.FAILURE,
        -math.inf,
    ),
    (
        "nor after a skip",
        {"first_skip": 50.0, "deadlocked": 50.5},
        50.5,
        Action.TAKE_STACKS,
        EndReason.DIVERGENCE,
        -math.inf,
    ),
    ("a failure late", {"first_bad": 99.5}, 99.9, Action.WAIT, EndReason.TIMEOUT, 100.0),
    ("both are due", {"first_bad": 98.0}, 100.0, Action.TAKE_STACKS, EndReason.FAILURE, -math.inf),
    ("all have reported", {"unsettled": 0}, 50.0, Action.RELEASE, None, math.inf),
    ("even after the deadline", {"unsettled": 0}, 500.0, Action.RELEASE, None, math.inf),
    ("released", {"unsettled": 0, "released": 50.0}, 54.0, Action.WAIT, EndReason.EXIT, 55.0),
    (
        "and does not leave",
        {"unsettled": 0, "released": 50.0},
        55.0,
        Action.TAKE_STACKS,
        EndReason.EXIT,
        -math.inf,
    ),
    ("stacks are coming", {"stacks_since": 50.0}, 50.1, Action.WAIT, None, 50.0 + STACKS_WAIT_S),
    ("stacks are there", {"stacks_since": 50.0, "stacks_taken": True}, 50.1, Action.END, None, math.inf),
    ("stacks do not come", {"stacks_since": 50.0}, 50.0 + STACKS_WAIT_S, Action.END, None, -math.inf),
    ("told to end", {"stacks_since": 50.0, "ended": 51.0}, 51.1, Action.WAIT, None, 51.0 + TERM_WAIT_S),
    ("and does not", {"stacks_since": 50.0, "ended": 51.0}, 51.0 + TERM_WAIT_S, Action.KILL, None, -math.inf),
    ("killed", {"ended": 51.0, "killed": 52.0}, 53.0, Action.WAIT, None, 52.0 + KILL_WAIT_S),
    ("and not gone", {"ended": 51.0, "killed": 52.0}, 99.0, Action.GIVE_UP, None, -math.inf),
    ("all are gone", {"alive": 0}, 5.0, Action.DONE, None, math.inf),
    ("gone at last", {"alive": 0, "killed": 1.0}, 500.0, Action.DONE, None, math.inf),
]

TIMES = st.floats(0, 1000)
MAYBE = st.none() | TIMES
VIEWS = st.builds(
    SupervisorView,
    started=TIMES,
    unsettled=st.integers(0, 4),
    alive=st.integers(0, 4),
    first_bad=MAYBE,
    first_skip=MAYBE,
    released=MAYBE,
    stacks_since=MAYBE,
    stacks_taken=st.booleans(),
    ended=MAYBE,
    killed=MAYBE,
)
GRACES = st.floats(0, 100)
ALL_LIMITS = st.builds(Limits, timeout_s=GRACES, grace_s=GRACES, skip_grace_s=GRACES, exit_grace_s=GRACES)
# The most steps that a whole test can take: each action once, apart from waiting.
MOST_STEPS = len(Action)


class CrowdingTest(unittest.TestCase):
    """How waits grow with the number of ranks."""

    def test_limits(self) -> None:
        """Up to 16 ranks a processor the settings hold; then all but the deadline grow in proportion."""
        settings = Settings(grace_s=1.0, skip_grace_s=3.0, exit_grace_s=10.0)
        for world_size, times in ((1, 1.0), (64, 1.0), (128, 2.0), (256, 4.0)):
            with self.subTest(world_size), mock.patch.object(processors, "available", return_value=4):
                limits = Limits.of(settings, 100.0, world_size)
                self.assertEqual((limits.timeout_s, limits.crowding), (100.0, times))
                graces = (limits.grace_s, limits.skip_grace_s, limits.exit_grace_s)
                self.assertEqual(graces, (times, 3 * times, 10 * times))
                self.assertEqual(limits.start_s, times * start_wait_of(settings))

    def test_ladder(self) -> None:
        """The waits that are no settings grow as well."""
        crowded = replace(LIMITS, crowding=4.0)
        for seen, until in (
            (replace(RUNNING, stacks_since=50.0), 50.0 + 4 * STACKS_WAIT_S),
            (replace(RUNNING, ended=50.0), 50.0 + 4 * TERM_WAIT_S),
            (replace(RUNNING, killed=50.0), 50.0 + 4 * KILL_WAIT_S),
        ):
            with self.subTest(seen):
                step = decide(seen, crowded, 50.1)
                self.assertEqual((step.action, step.until), (Action.WAIT, until))


class StartTest(unittest.TestCase):
    """``start_wait_of``: how long ranks have to begin."""

    def test_table(self) -> None:
        """No longer than the run's deadline, and longer where deadlines are multiplied."""
        for timeout_s, multiplier, seconds in (
            (7.0, 1.0, 7.0),
            (120.0, 1.0, START_WAIT_S),
            (7.0, 3.0, 21.0),
            (120.0, 3.0, 3 * START_WAIT_S),
        ):
            with self.subTest(timeout_s=timeout_s, multiplier=multiplier):
                settings = Settings(timeout_s=timeout_s, timeout_multiplier=multiplier)
                self.assertEqual(start_wait_of(settings), seconds)


class TableTest(unittest.TestCase):
    """Rows that a reader can check against the picture in the module."""

    def test_table(self) -> None:
        """Each row gives its step."""
        for name, seen, now, action, why, until in TABLE:
            with self.subTest(name, **seen):
                self.assertEqual(decide(replace(RUNNING, **seen), LIMITS, now), NextStep(action, why, until))


class PropertyTest(unittest.TestCase):
    """Properties that hold for all views, limits and times."""

    @given(VIEWS, ALL_LIMITS, TIMES)
    def test_total_and_deterministic(self, view: SupervisorView, limits: Limits, now: float) -> None:
        """Every view has one step, and the same one each time."""
        step = decide(view, limits, now)
        self.assertIsInstance(step.action, Action)
        self.assertEqual(decide(view, limits, now), step)

    @given(VIEWS, ALL_LIMITS, TIMES)
    def test_waiting_ends(self, view: SupervisorView, limits: Limits, now: float) -> None:
        """A wait ends at a later, finite time, and then an action follows."""
        step = decide(view, limits, now)
        if step.action is Action.WAIT:
            self.assertGreater(step.until, now)
            self.assertLess(step.until, math.inf)
            self.assertIsNot(decide(view, limits, step.until).action, Action.WAIT)

    @given(VIEWS, ALL_LIMITS, TIMES, GRACES)
    def test_monotone(self, view: SupervisorView, limits: Limits, now: float, later: float) -> None:
        """What is due now is still due later: time alone never turns an action into a wait."""
        if decide(view, limits, now).action is not Action.WAIT:
            self.assertIsNot(decide(view, limits, now + later).action, Action.WAIT)

    @given(VIEWS, ALL_LIMITS, TIMES)
    def test_looks_for_a_reason(self, view: SupervisorView, limits: Limits, now: float) -> None:
        """If the step is to look at ranks, the view holds the reason for it."""
        step = decide(view, limits, now)
        if step.action is Action.TAKE_STACKS:
            self.assertIsNotNone(step.why)
            self.assertEqual(step.why is EndReason.EXIT, view.unsettled == 0)
            self.assertFalse(step.why is EndReason.FAILURE and view.first_bad is None)
            self.assertFalse(step.why is EndReason.DIVERGENCE and view.first_skip is None)

    @given(ALL_LIMITS, st.integers(1, 4), st.booleans(), MAYBE, MAYBE)
    def test_ends(
        self, limits: Limits, alive: int, stuck: bool, first_bad: float | None, first_skip: float | None
    ) -> None:
        """For ranks that never answer and never die, the ladder of actions ends after a few steps."""
        view = SupervisorView(
            0.0, unsettled=alive if stuck else 0, alive=alive, first_bad=first_bad, first_skip=first_skip
        )
        now, done = 0.0, []
        while (step := decide(view, limits, now)).action is not Action.GIVE_UP:
            if step.action is Action.WAIT:
                now = step.until
                continue
            done.append(step.action)
            self.assertLessEqual(len(done), MOST_STEPS)
            view = _after(view, step.action, now)
        ladder = [Action.TAKE_STACKS, Action.END, Action.KILL]
        self.assertEqual(done, ladder if stuck else [Action.RELEASE, *ladder])


def _after(view: SupervisorView, action: Action, now: float) -> SupervisorView:
    """Returns the view after the supervisor has acted and nothing else has happened."""
    field = {
        Action.RELEASE: "released",
        Action.TAKE_STACKS: "stacks_since",
        Action.END: "ended",
        Action.KILL: "killed",
    }[action]
    changes: dict[str, Any] = {field: now}
    return replace(view, **changes)


if __name__ == "__main__":
    unittest.main()
