"""How long the controller lets a test run before it ends the test's worker.

The supervisor of a test's ranks keeps their deadline, in the worker. The controller's own limit is later,
in case the supervisor does not end the test.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.ranks import deadlines
from harness.runner.scheduling.unit import Unit
from harness.settings import Settings, multiplied

# Seconds that the controller waits longer than all waits of the ranks' supervisor: enough to take the stacks
# of all ranks and to end them on a loaded machine.
WATCHDOG_SLACK_S = 20.0
assert deadlines.STACKS_WAIT_S + deadlines.TERM_WAIT_S + deadlines.KILL_WAIT_S < WATCHDOG_SLACK_S
# Seconds. The longest deadline that upstream sets for its tests (common_distributed.get_timeout: 300 for most
# tests, up to 500 by name or build). Drop-in runs keep these deadlines unless they set one.
LONGEST_UPSTREAM_S = 500.0


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The time limits of a run, in seconds: ``timeout_s`` for tests that set none, None for no limits at all.

    ``margin_s`` is how much later the controller ends the worker of a test that a supervisor watches; more
    for ranks that crowd the machine.
    ``multiplier`` is what the deadlines of tests are multiplied by.
    """

    timeout_s: float | None
    margin_s: float
    multiplier: float = 1.0

    def of(self, unit: Unit) -> float | None:
        """The seconds after which the controller ends the unit's worker; None for no limit."""
        if self.timeout_s is None:
            return None
        limit = unit.timeout_s if unit.timeout_s is not None else self.timeout_s
        limit = multiplied(limit, self.multiplier)
        margin_s = self.margin_s * deadlines.crowding(unit.demand.ranks)
        return limit + margin_s if unit.supervised else limit


def time_limits(settings: Settings, *, upstream_deadlines: bool, debugger: bool) -> TimeLimits:
    """The limits of a run: none with ``debugger``, upstream's longest or more with ``upstream_deadlines``."""
    graces = settings.grace_s + max(settings.skip_grace_s, settings.exit_grace_s) + settings.exit_grace_s
    margin_s = deadlines.start_wait_of(settings) + graces + WATCHDOG_SLACK_S
    timeout_s = max(settings.timeout_s, LONGEST_UPSTREAM_S) if upstream_deadlines else settings.timeout_s
    return TimeLimits(None if debugger else timeout_s, margin_s, settings.timeout_multiplier)
