"""Chaos: random delays of a rank around its communication calls, so that ranks meet in other orders.

A test whose verdict depends on who is quicker has a race, which shows in one of a thousand runs. Under
``HARNESS_CHAOS=SEED`` a rank is delayed before and after its calls and waits, and its threads are switched at
another interval. All of it follows from the seed, the rank and the number of the moment, so that a seed gives
the same delays again. A rank is slow, or quick, during a whole test: that changes who comes first more often
than delays which are alike for all.

The calls are seen where they are recorded: ``DelayingRecorder`` stands in for ``Recorder``, and without chaos
nothing is asked.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.communication.call_log import CallLog
from harness.communication.record.recorder import Recorder
from harness.settings import EnvVar

# Seconds: the longest delay of a rank that is neither slow nor quick. A local call takes some 0.1 ms.
LONGEST_S = 0.004
# By what a rank's delays are multiplied: a quick one has none.
PACES = (0.0, 1.0, 5.0)
# The part of the moments that have no delay.
NONE = 0.5
# Seconds between the switches of a rank's threads; Python's own is 5 ms.
SWITCH_INTERVALS_S = (1e-6, 1e-5, 1e-4, 1e-3, 0.005, 0.02)


@dataclass(frozen=True, slots=True)
class Chaos:
    """The delays of one rank under a seed."""

    seed: int
    rank: int

    @property
    def pace(self) -> float:
        """How slow the rank is: one of ``PACES``."""
        return self._random("pace").choice(PACES)

    @property
    def switch_interval_s(self) -> float:
        """The interval at which the rank's threads are switched."""
        return self._random("switches").choice(SWITCH_INTERVALS_S)

    def delay_s(self, moment: int) -> float:
        """The delay at a moment, counted from 0 in each test; 0 for none."""
        drawn = self._random(moment).uniform(-NONE / (1 - NONE), 1)
        return max(drawn, 0) * LONGEST_S * self.pace

    def _random(self, what: object) -> random.Random:
        return random.Random(f"{self.seed}/{self.rank}/{what}")


def chaos_of(environ: Mapping[str, str], rank: int) -> Chaos | None:
    """The chaos that variables ask for, which were checked where the test was started; None for none."""
    seed = environ.get(EnvVar.CHAOS, "").strip()
    return Chaos(int(seed), rank) if seed else None


@contextlib.contextmanager
def switching(chaos: Chaos | None) -> Iterator[None]:
    """Switches the threads of this process at the interval of ``chaos`` in a region."""
    if chaos is None:
        yield
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(chaos.switch_interval_s)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def recorder(log: CallLog, members_of: Callable[[Any], tuple[int, ...]], chaos: Chaos | None) -> Recorder:
    """What records a rank's calls, and delays them under ``chaos``."""
    return Recorder(log, members_of) if chaos is None else DelayingRecorder(log, members_of, chaos)


class DelayingRecorder(Recorder):
    """Records one rank's calls as ``Recorder`` does, and delays the rank before and after each."""

    def __init__(self, log: CallLog, members_of: Callable[[Any], tuple[int, ...]], chaos: Chaos) -> None:
        super().__init__(log, members_of)
        self._chaos = chaos
        self._moments = itertools.count()

    def forget_calls(self) -> None:
        """Forgets the calls of the test before, and counts the moments from the first again."""
        super().forget_calls()
        self._moments = itertools.count()

    def _delay(self) -> None:
        delay_s = self._chaos.delay_s(next(self._moments))
        if delay_s:
            time.sleep(delay_s)  # by its name: a rank that is a thread lets others run meanwhile

    def again(self, *_: object) -> None:
        """Leaves all calls to ``began``."""

    def began(self, *args: Any, **kwargs: Any) -> int:
        """Delays a call."""
        self._delay()
        return super().began(*args, **kwargs)

    def returned(self, token: int, work: Any, own_work: bool = False) -> None:
        """Delays what comes after a call."""
        super().returned(token, work, own_work)
        self._delay()

    def waited(self, work: object, raised: bool = False) -> None:
        """Delays what comes after a wait."""
        super().waited(work, raised)
        self._delay()

    def waits_for_tensor(self, address: int) -> int | None:
        """Delays a wait for a tensor."""
        self._delay()
        return super().waits_for_tensor(address)

    def makes_group(self, *args: Any, **kwargs: Any) -> int:
        """Delays the making of a group."""
        self._delay()
        return super().makes_group(*args, **kwargs)

    def uses_store(self, *args: Any, **kwargs: Any) -> int:
        """Delays a call of a store."""
        self._delay()
        return super().uses_store(*args, **kwargs)

    def ended(self, token: int, *, raised: bool = False) -> None:
        """Delays what comes after a call of a store, the making of a group or a wait for a tensor."""
        super().ended(token, raised=raised)
        self._delay()
