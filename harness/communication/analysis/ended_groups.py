"""``ended_group``: ranks that have destroyed a group in which others wait for them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.communication.analysis.difference_text import Explanation, group_of
from harness.communication.analysis.matching import CallsByRank, row_key, rows
from harness.communication.analysis.wait_graph import Waiting
from harness.communication.analysis.waits_text import waits_text
from harness.communication_call import Call, Kind
from harness.outcomes import ranks_text


def ended_group(
    calls: CallsByRank, waiting: Mapping[int, Waiting], running: Collection[int]
) -> Explanation | None:
    """Which of the ranks that are still ``running`` have destroyed the group of a collective.

    Of those that have left it says more that they have. None where no fewer ranks have destroyed the group
    than have called the collective, which then may be one too many.
    """
    every = {row_key(row.first): row for row in rows(calls)}
    for each in waiting.values():
        row = every.get(row_key(each.call))
        if each.call.kind is not Kind.COLLECTIVE or row is None:
            continue
        ends = {rank: _end_of(each.call, calls[rank]) for rank in row.missing() if rank in running}
        found = {rank: end for rank, end in ends.items() if end is not None}
        if 0 < len(found) < len(row.calls):
            first = next(iter(found.values()))
            told = f"{ranks_text(sorted(found))} destroyed {first.signature.group_text}{first.at}"
            told = f"{told} and never came to {each.call.name}"
            text = f"{told}; {waits_text([*waiting.values()], told)}"
            return Explanation(text, tuple(sorted(found)), group_of(each.call))
    return None


def _end_of(call: Call, mine: Collection[Call]) -> Call | None:
    """Where a rank has destroyed the group of a call; None where it has not."""
    group = call.signature.group_key
    return next((c for c in mine if c.kind is Kind.ENDING and c.signature.group_key == group), None)
