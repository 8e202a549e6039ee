"""What a fault does to a rank: its nature, and whether the rank comes as far as its peers wait for it.

Imports nothing of the harness: the oracle stands on it.
"""

from __future__ import annotations

import enum

from tools.verdict_fuzzing.case import (
    DYING,
    EXITING,
    FAILING,
    GARBLING,
    HANGING,
    HARMLESS,
    NEVER_RUN,
    RAISING,
    FuzzCase,
)

# The moments that come before the ranks meet.
BEFORE_MEETING = ("import", "set-up", "body", "sub-test")
# What peers do that wait for the struck ranks.
WAITING = ("collective", "store", "busy")


class Nature(enum.Enum):
    """What becomes of a struck rank by itself."""

    PASSES = "passes"
    FAILS = "fails"  # an AssertionError
    RAISES = "raises"  # any other exception
    EXITS = "exits"  # raises SystemExit
    DIES = "dies"  # its process ends without a report
    HANGS = "hangs"
    SKIPS = "skips"
    SKIPS_PART = "skips a sub-test"
    FAILS_THEN_SKIPS = "fails in a sub-test, then skips"
    NEVER_RUNS = "its method is called and does not run"


def nature(case: FuzzCase) -> Nature:
    """What the fault, at its moment, makes of a rank."""
    if case.fault == "skip":
        return Nature.SKIPS_PART if case.moment == "sub-test" else Nature.SKIPS
    if case.fault == "os_exit_0" and case.moment == "exit":
        return Nature.PASSES  # it had reported, and leaves with the code of a rank that passed
    if case.fault in EXITING and case.moment == "sub-test":
        return Nature.RAISES  # unittest takes it for an error of the sub-test, and the method goes on
    for names, kind in (
        (FAILING, Nature.FAILS),
        (RAISING, Nature.RAISES),
        (EXITING, Nature.EXITS),
        ((*DYING, *GARBLING), Nature.DIES),
        (HANGING, Nature.HANGS),
        (HARMLESS, Nature.PASSES),
        (NEVER_RUN, Nature.NEVER_RUNS),
    ):
        if case.fault in names:
            return kind
    return Nature.FAILS_THEN_SKIPS


def comes_to_meeting(case: FuzzCase) -> bool:
    """Whether a struck rank comes as far as the point where its peers wait for it."""
    if case.moment not in BEFORE_MEETING:
        return True
    kind = nature(case)
    if case.moment == "sub-test" and case.expected_failure and kind in (Nature.FAILS, Nature.RAISES):
        return False  # unittest ends a test at the failure that it expects
    if case.moment == "sub-test" and case.fault != "keyboard_interrupt":
        return kind not in (Nature.DIES, Nature.HANGS)  # unittest goes on after a sub-test that went wrong
    return kind is Nature.PASSES


def stuck(case: FuzzCase) -> tuple[int, ...]:
    """The peers that wait in vain."""
    return case.others if case.peers in WAITING and not comes_to_meeting(case) else ()


def hangs(case: FuzzCase) -> bool:
    """Whether a struck rank never reports nor ends by itself, so that only a limit ends the test."""
    return nature(case) is Nature.HANGS


def dies(case: FuzzCase) -> bool:
    """Whether the process of a struck rank ends, or is lost to its launcher."""
    return nature(case) is Nature.DIES
