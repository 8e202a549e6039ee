"""A module's warm-up: what one test does for its whole process, and tests after it find done.

The first test that compiles imports 650 modules and asks for the machine's compiler, which takes ten times as
long as the rest of it; another loads a model that is kept, or sets a fixture of pytest's session up. A second
worker would pay that again. So its seconds are kept beside those of fixtures, which every worker has to set
up as well: how much longer such a test took than the next one of its module.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from time import monotonic  # by name, because a test may leave ``time.monotonic`` patched

from harness.outcomes import Status
from harness.record import TestRecord

# Modules that a test imports at least where it warms up later in a batch than in its first test: they take a
# tenth of a second or two, and more of them than a test's own imports of the standard library bring.
MANY_MODULES = 100
# Seconds that a warm-up takes at least: so much do equal tests differ.
LEAST_S = 0.1
# In what a record has extra: the mark of a test that may have warmed its worker up.
MARK = "may_warm_up"


def warm_up_key(module: str) -> str:
    """The key of the module's warm-up among the seconds of fixtures."""
    return f"warm up {module}"


def is_warm_up(key: str) -> bool:
    """Whether a key among the seconds of fixtures is that of a warm-up."""
    return key.startswith(warm_up_key(""))


class WarmUps:
    """What a worker finds out of the warm-ups of its batch, which is of one module."""

    def __init__(self, module: str) -> None:
        self._key = warm_up_key(module)
        self._made_s = monotonic()
        self._start_s: float | None = None  # what it took until the first test began
        self._modules = 0
        self._suspect_s: float | None = None  # of a test that no other has followed yet
        self._total_s = 0.0
        self._first = True

    def begin(self) -> None:
        """A test begins."""
        self._modules = len(sys.modules)
        if self._start_s is None:
            self._start_s = monotonic() - self._made_s

    def noted(self, record: TestRecord) -> TestRecord:
        """The record of the test that began last, with what it tells.

        The first test of the worker and one that imports many modules are marked: they may have warmed it up.
        How long that took is known as soon as another test has ended, and is in that one's record, with all
        that was known before: earlier warm-ups, and what went before the first test, as pytest's collection
        of thousands. Skipped tests tell nothing.
        """
        if record.status is Status.SKIPPED:
            return record
        suspect = self._first or len(sys.modules) - self._modules >= MANY_MODULES
        self._first = False
        if suspect:
            self._suspect_s = max(record.duration_s, self._suspect_s or 0.0)
            return replace(record, extra={**record.extra, MARK: True})
        if self._suspect_s is None:
            return record
        self._total_s += max(0.0, self._suspect_s - record.duration_s) + (self._start_s or 0.0)
        self._suspect_s, self._start_s = None, 0.0
        if self._total_s < LEAST_S:
            return record
        fixtures = {**record.extra.get("fixtures_s", {}), self._key: self._total_s}
        return replace(record, extra={**record.extra, "fixtures_s": fixtures})


def may_warm_up(record: TestRecord) -> bool:
    """Whether the record has the mark of a test that may have warmed its worker up."""
    return MARK in record.extra
