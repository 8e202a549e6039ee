"""Decides by timeout and graces when ranks are released, asked for stacks, sent SIGTERM and SIGKILL.

running --all settled--> releasing --all gone--> done
   |  first failure + grace, first skip + skip grace, or the test's deadline
   v
taking stacks --> ending (SIGTERM) --> killing (SIGKILL) --> done
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from harness.settings import Settings
from harness.system import processors

# Ranks that a busy processor serves within all these waits, and within the graces of the settings. For more
# ranks they grow.
RANKS_A_PROCESSOR = 16
# Seconds to wait for the stack dumps of all ranks. A dump takes microseconds once the rank's thread is
# scheduled; the rest is for as many ranks as a busy processor serves.
STACKS_WAIT_S = 0.5
# Seconds without another byte after which a dump that does not look complete is used as it is.
STACKS_QUIET_S = 0.03
# Seconds from SIGTERM to SIGKILL. SIGTERM ends a process at once by default, so only a rank that handles the
# signal uses this time.
TERM_WAIT_S = 0.5
# Seconds for a rank to end after SIGKILL; one that has not is in an uninterruptible system call.
KILL_WAIT_S = 10.0
# Seconds for ranks to start and to import what they need, until the test's deadline counts all the same. The
# import of torch takes some of them, and ten on a cold disk.
START_WAIT_S = 30.0
assert STACKS_QUIET_S < STACKS_WAIT_S <= TERM_WAIT_S < KILL_WAIT_S


def crowding(world_size: int) -> float:
    """What the waits for so many ranks on this machine are multiplied by: 1, or more where they crowd it."""
    return max(1.0, world_size / (RANKS_A_PROCESSOR * processors.available()))


def start_wait_of(settings: Settings) -> float:
    """The seconds for ranks to begin a test: ``START_WAIT_S``, less where the run's deadline is shorter.

    Multiplied by the settings' ``timeout_multiplier``.
    """
    return settings.deadline_s(min(settings.timeout_s, START_WAIT_S))


class Action(enum.Enum):
    """What the supervisor is to do next."""

    WAIT = "wait"
    RELEASE = "release"  # let the ranks that have reported exit
    TAKE_STACKS = "take stacks"  # of the ranks that are about to be ended
    END = "end"  # SIGTERM
    KILL = "kill"  # SIGKILL, the whole process group
    GIVE_UP = "give up"  # a rank is still alive long after SIGKILL
    DONE = "done"


class EndReason(enum.Enum):
    """Why ranks have to be ended."""

    TIMEOUT = "timeout"  # the test's deadline
    FAILURE = "failure"  # another rank failed, and the grace is over
    DIVERGENCE = "divergent skip"  # another rank skipped, and the skip grace is over
    DEADLOCK = "deadlock"  # ranks wait that can never go on
    EXIT = "exit"  # the rank reported and was released, but does not exit
    INTERRUPT = "interrupt"  # Ctrl-C


@dataclass(frozen=True, slots=True)
class Limits:
    """The deadline and the grace periods of one test in seconds, from the settings and the test.

    The deadline counts from when the last rank begins the test, at the latest ``start_s`` after the launch.
    ``crowding`` is what the waits that are no settings are multiplied by.
    """

    timeout_s: float
    grace_s: float
    skip_grace_s: float
    exit_grace_s: float
    start_s: float = 0.0
    crowding: float = 1.0

    @classmethod
    def of(
        cls,
        settings: Settings,
        timeout_s: float,
        world_size: int = 1,
        *,
        no_grace_in_debugger: bool = False,
    ) -> Limits:
        """The limits of a test with a deadline of ``timeout_s``; no deadline while a rank is being debugged.

        For more than 16 ranks a processor all but the deadline grow, as ranks take longer to be served.
        The graces stay for a supervisor that can tell when the debugged rank has settled; a supervisor that
        cannot passes ``no_grace_in_debugger`` to remove them as well.
        """
        times = crowding(world_size)
        grace_s, skip_grace_s = times * settings.grace_s, times * settings.skip_grace_s
        if settings.pdb_rank is None:
            start_s = times * start_wait_of(settings)
            return cls(timeout_s, grace_s, skip_grace_s, times * settings.exit_grace_s, start_s, times)
        if no_grace_in_debugger:
            return cls(math.inf, math.inf, math.inf, math.inf)
        return cls(math.inf, grace_s, skip_grace_s, math.inf, crowding=times)


@dataclass(frozen=True, slots=True)
class SupervisorView:
    """What the supervisor has observed so far; times in seconds on the monotonic clock, None for "not yet".

    ``unsettled`` counts ranks that have neither reported nor exited, ``alive`` those whose process still
    exists. ``deadlocked``: some ranks can never go on; after a failure or a skip, none of the unsettled can.
    """

    started: float
    unsettled: int
    alive: int
    first_bad: float | None = None
    first_skip: float | None = None
    deadlocked: float | None = None
    interrupted: float | None = None
    released: float | None = None
    stacks_since: float | None = None
    stacks_taken: bool = False
    ended: float | None = None
    killed: float | None = None


@dataclass(frozen=True, slots=True)
class NextStep:
    """The action to take, the reason for it and, for WAIT, until when at most (infinity: no limit)."""

    action: Action
    why: EndReason | None = None
    until: float = math.inf


def decide(view: SupervisorView, limits: Limits, now: float) -> NextStep:
    """Returns the supervisor's next step; the same view always gives the same step, and each view has one."""
    if view.alive == 0:
        return NextStep(Action.DONE)
    if view.killed is not None:
        return _after(view.killed + limits.crowding * KILL_WAIT_S, now, Action.GIVE_UP)
    if view.ended is not None:
        return _after(view.ended + limits.crowding * TERM_WAIT_S, now, Action.KILL)
    if view.stacks_since is not None:
        if view.stacks_taken:
            return NextStep(Action.END)
        return _after(view.stacks_since + limits.crowding * STACKS_WAIT_S, now, Action.END)
    if view.interrupted is not None:
        return NextStep(Action.TAKE_STACKS, EndReason.INTERRUPT)
    if view.unsettled == 0:
        if view.released is None:
            return NextStep(Action.RELEASE)
        return _after(view.released + limits.exit_grace_s, now, Action.TAKE_STACKS, EndReason.EXIT)
    return min(_reasons(view, limits, now), key=_urgency)


def _reasons(view: SupervisorView, limits: Limits, now: float) -> list[NextStep]:
    steps = [_after(view.started + limits.timeout_s, now, Action.TAKE_STACKS, EndReason.TIMEOUT)]
    if view.deadlocked is not None:
        steps.append(_after(view.deadlocked, now, Action.TAKE_STACKS, why_deadlocked(view)))
    if view.first_bad is not None:
        steps.append(_after(view.first_bad + limits.grace_s, now, Action.TAKE_STACKS, EndReason.FAILURE))
    if view.first_skip is not None:
        steps.append(
            _after(view.first_skip + limits.skip_grace_s, now, Action.TAKE_STACKS, EndReason.DIVERGENCE)
        )
    return steps


def why_deadlocked(view: SupervisorView) -> EndReason:
    """Why ranks are ended that can never go on: because of a rank that failed or skipped, if one did."""
    if view.first_bad is not None:
        return EndReason.FAILURE
    return EndReason.DIVERGENCE if view.first_skip is not None else EndReason.DEADLOCK


def _urgency(step: NextStep) -> tuple[bool, float, bool]:
    """Sort key: steps that are due come first, and a failure or divergence before a timeout."""
    return (step.action is Action.WAIT, step.until, step.why is EndReason.TIMEOUT)


def _after(when: float, now: float, action: Action, why: EndReason | None = None) -> NextStep:
    if now >= when:
        return NextStep(action, why, until=-math.inf)
    return NextStep(Action.WAIT, why, until=when)
