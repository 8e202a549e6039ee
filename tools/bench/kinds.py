"""Defines the kinds of measurement, and computes the number that a run of each kind gives."""

from __future__ import annotations

from dataclasses import dataclass


class MeasureError(Exception):
    """A measurement gave no number, because its test did not end as it had to."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of measurement.

    ``method`` is the test method, and for fresh ranks the body (``bodies``), that the ranks run; ``passes``
    says whether that test has to pass. ``sizes`` are the world sizes to measure at, or empty for those of the
    command line. ``alone`` says that other contenders' processes must not exist meanwhile.
    """

    name: str
    title: str
    unit: str
    method: str
    passes: bool = True
    sizes: tuple[int, ...] = ()
    alone: bool = False


TEST = Kind("test", "one test: group + all_reduce", "s", "test_all_reduce")
# Memory is a difference between two world sizes; pages of libraries are shared with every process that
# maps them, so other contenders must not run meanwhile.
MEMORY = Kind("memory", "memory of all processes (PSS)", "MB", "test_hold", sizes=(2, 8), alone=True)
DEATH_SEEN = Kind(
    "death-seen", "rank killed, peers in all_reduce", "s", "test_death_seen", passes=False, sizes=(4,)
)
DEATH_UNSEEN = Kind(
    "death-unseen", "rank killed, peers wait at a store", "s", "test_death_unseen", passes=False, sizes=(4,)
)
# Measurements of classes whose ranks are kept from test to test (contenders/kept.py).
CLASS_START = Kind("class-start", "first no-op test of a class", "s", "test_nothing", sizes=(2, 4))
KEPT_TEST = Kind("kept-test", "each later no-op test", "s", "test_nothing", sizes=(2, 4))
DTENSOR_TEST = Kind("dtensor-test", "each later DTensor test", "s", "test_dtensor", sizes=(4,))
KEPT = (CLASS_START, KEPT_TEST, DTENSOR_TEST)
KINDS = {kind.name: kind for kind in (TEST, MEMORY, DEATH_SEEN, DEATH_UNSEEN, *KEPT)}

MEGABYTE = 1e6


def value(kind: Kind, started: float, ended: float, spot: str, passed: bool) -> float:
    """The number that a run of ``kind`` gives, in the kind's unit.

    ``started`` and ``ended`` are monotonic seconds around the run in the process that started the ranks;
    ``spot`` is the text that a rank wrote. Raises MeasureError if the test did not end as it had to.
    """
    if passed is not kind.passes:
        raise MeasureError(f"the test {'passed' if passed else 'failed'}")
    if kind is TEST:
        return ended - started
    if not spot:
        raise MeasureError("no rank wrote its measurement down")
    if kind is MEMORY:
        return float(spot) / MEGABYTE
    return ended - float(spot)
