"""``Race``: a test whose verdict depends on the delays of its ranks, with a seed for each of two verdicts.

A run with ``--chaos SEED --repeat N`` has another seed of delays in each round. Nothing else differs between
the rounds, so a test that passes in one and fails in another has a race.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from harness.outcomes import Status
from harness.record import TestRecord

# What says nothing of a test under its delays.
_NO_VERDICT = (Status.SKIPPED, Status.ENDED)
_OPTION = re.compile(r"--chaos \d+")


@dataclass(frozen=True, slots=True)
class Race:
    """A test and the seeds of delays under which it passes, and those under which it fails."""

    id: str
    passes: tuple[int, ...]
    fails: tuple[int, ...]


def races(records: Iterable[TestRecord]) -> tuple[Race, ...]:
    """The tests that pass under one seed and fail under another.

    A seed under which a test does both says nothing: there is more to it than the delays.
    """
    passes: dict[str, set[int]] = defaultdict(set)
    fails: dict[str, set[int]] = defaultdict(set)
    for record in records:
        seed = record.extra.get("chaos")
        if seed is not None and record.status not in _NO_VERDICT:
            (passes if record.ok else fails)[record.id].add(seed)
    found = (
        Race(test_id, tuple(sorted(passes[test_id] - wrong)), tuple(sorted(wrong - passes[test_id])))
        for test_id, wrong in fails.items()
    )
    return tuple(race for race in found if race.passes and race.fails)


def under(command: str, record: TestRecord) -> str:
    """The command of a run as it repeats one test: with the seed of delays of the test's own round."""
    return (
        _OPTION.sub(f"--chaos {record.extra.get('chaos')}", command) if "chaos" in record.extra else command
    )
