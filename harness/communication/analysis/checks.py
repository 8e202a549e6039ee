"""``findings``: what the calls of all ranks of a test have wrong although every rank may have passed. Pure.

Arguments that differ between ranks give wrong numbers without an error. What else is found may be meant, or
be harmless with this backend, and is a warning. ``docs/communication.rst`` has the table.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.communication.analysis.difference_text import (
    difference_text,
    incomplete_text,
    made_by_some_text,
    message_text,
)
from harness.communication.analysis.matching import (
    CallsByRank,
    Messages,
    Row,
    differences_of,
    messages,
    rows,
    unequal_messages,
)
from harness.communication.analysis.odd_steps import with_odd_step
from harness.communication.call_log import ENTRIES
from harness.communication.log_entries import all_alike
from harness.communication_call import Call, Kind
from harness.outcomes import ranks_text


class Check(str, enum.Enum):
    """What is checked."""

    ARGUMENTS = "arguments"  # of one call, which must agree between ranks
    VALUES = "values"  # what a collective or a message gave, which must be what it is defined to give
    WRITTEN = "written"  # a tensor changed while a call used it
    OVERLAP = "overlap"  # two pending calls on the same memory, one of which writes
    UNWAITED = "unwaited"  # a work handle that nobody waited for
    INCOMPLETE = "incomplete"  # a collective, or the making of a group, that not all ranks called that must
    LOST = "lost"  # a message that nobody received
    RACE = "race"  # a receive from any source that several senders could match
    REPLICAS = "replicas"  # results that are right but not the same to the last bit, and ought to be
    UNCOMPARED = "uncompared"  # calls whose values could not be compared

    @property
    def error(self) -> bool:
        """Whether it is an error by default, and not a warning."""
        return self in (Check.ARGUMENTS, Check.VALUES)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, in a line, and the ranks to which it is due."""

    check: Check
    text: str
    ranks: tuple[int, ...] = ()


# The most findings of one kind that are told of a test.
MOST_OF_A_KIND = 4


def findings(calls: CallsByRank) -> tuple[Finding, ...]:
    """All that is wrong, arguments first; at most ``MOST_OF_A_KIND`` of a kind.

    What needs all calls of a test is left out where a rank made more than its log holds.
    """
    if not calls or all_alike(calls):
        return ()
    matched = rows(calls)
    found = [*_arguments(calls, matched), *_told_by_ranks(calls)]
    if all(len(mine) < ENTRIES for mine in calls.values()):
        found += [*_unwaited(calls), *_incomplete(calls, matched), *_made_by_some(calls, matched)]
        found += _messages(calls)
    return bounded(found)


def bounded(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by kind, at most ``MOST_OF_A_KIND`` of each."""
    by_check: dict[Check, list[Finding]] = defaultdict(list)
    for each in found:
        by_check[each.check].append(each)
    return tuple(each for check in Check for each in by_check[check][:MOST_OF_A_KIND])


def _arguments(calls: CallsByRank, matched: Iterable[Row]) -> Iterator[Finding]:
    for difference in differences_of(matched):
        if any(call.raised for call in difference.row.calls.values()):
            continue  # so the test has seen it
        said = with_odd_step(difference_text(difference), calls)
        yield Finding(Check.ARGUMENTS, said.text, said.ranks)


def _told_by_ranks(calls: CallsByRank) -> Iterator[Finding]:
    """What ranks saw in their own memory, and wrote into their logs."""
    for rank, mine in calls.items():
        for call in mine:
            if call.kind is Kind.FINDING:
                check = Check(call.signature.operation)
                yield Finding(check, f"rank {rank}: {call.signature.key}", (rank,))


def _unwaited(calls: CallsByRank) -> Iterator[Finding]:
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, mine in calls.items():
        for call in mine:
            unwaited = call.own_work and call.ended_s is None and call.waiting_s is None
            if unwaited and call.place and not call.by_library:
                alike[str(call), call.at].append(rank)
    for (name, at), ranks in alike.items():
        text = f"nobody waited for the work of {name}{at} on {ranks_text(ranks)}"
        yield Finding(Check.UNWAITED, text, tuple(ranks))


def _incomplete(calls: CallsByRank, matched: Iterable[Row]) -> Iterator[Finding]:
    """The first collective of each group that some of its ranks never called.

    Not in groups of which a call raised: the test has seen it, and may have gone on without the others. Where
    C++ made the call, which may have raised while it waited for another one, not where anything raised.
    """
    raised = [call for mine in calls.values() for call in mine if call.raised]
    if any(call.refused for call in raised):
        raised = [call for call in raised if not call.refused]
        matched = rows({rank: [call for call in mine if not call.refused] for rank, mine in calls.items()})
    over = {call.signature.group_key for call in raised}
    for row in matched:
        s = row.first.signature
        absent = row.missing()
        if s.kind is not Kind.COLLECTIVE or not absent or s.group_key in over or s.backend == "fake":
            continue
        if not all(calls.get(rank) for rank in absent):
            continue  # a rank of which nothing is known
        over.add(s.group_key)
        if raised and any(call.unseen for call in row.calls.values()):
            continue
        yield Finding(Check.INCOMPLETE, incomplete_text(row, absent), tuple(sorted({*row.calls, *absent})))


def _made_by_some(calls: CallsByRank, matched: Iterable[Row]) -> Iterator[Finding]:
    """The first group that ``new_group`` made on some ranks of the default group alone.

    Groups are named by how many there were before, so that later groups of these ranks do not meet.
    Groups that only their members make (``use_local_synchronization``) have names that are no numbers.
    """
    every = (c.signature for mine in calls.values() for c in mine)
    world = next((s.members for s in every if s.default and s.members), ())
    for row in matched:
        s = row.first.signature
        absent = [rank for rank in world if rank not in row.calls]
        if s.kind is not Kind.MAKING or s.default or not s.group.isdigit() or not absent:
            continue
        if all(calls.get(rank) for rank in absent) and not any(c.raised for c in row.calls.values()):
            yield Finding(Check.INCOMPLETE, made_by_some_text(row, absent), tuple(sorted(row.calls)))
        return


def _messages(calls: CallsByRank) -> Iterator[Finding]:
    found = messages(calls)
    for channel, send, receive in unequal_messages(found):
        said = message_text(channel, send, receive)
        yield Finding(Check.ARGUMENTS, said.text, said.ranks)
    yield from _lost(found)
    yield from _races(found, calls)


def _lost(found: Messages) -> Iterator[Finding]:
    for channel, sends in found.sends.items():
        receives = len(found.receives.get(channel, ()))
        receives += len(found.from_any.get((channel.group, channel.receiver, channel.tag), ()))
        for send in [each for each in sends if not each.raised][receives:]:  # else the test has seen it
            text = f"rank {channel.sender}: {send}{send.at} was never received"
            yield Finding(Check.LOST, text, (channel.sender, channel.receiver))


def _races(found: Messages, calls: CallsByRank) -> Iterator[Finding]:
    """The first receive from any source, by group, rank and tag, that more than one sender could match."""
    for (group, receiver, tag), receives in found.from_any.items():
        sends = found.sends_to(group, receiver, tag)
        for place, receive in enumerate(receives):
            senders = _candidates(sends, _known_at(receive, calls[receiver]), taken=place)
            if len(senders) > 1:
                who = " and ".join(map(str, senders))
                text = f"rank {receiver}: {receive}{receive.at} could match messages of ranks {who}"
                yield Finding(Check.RACE, text, (receiver,))
                break


def _known_at(receive: Call, calls: Iterable[Call]) -> float | None:
    """When the receiver first told others anything after a receive; None where it never did.

    What was sent before that cannot depend on the receive, however the ranks were scheduled.
    """
    ended_s = receive.ended_s
    if ended_s is None:
        return None
    later = (c.started_s for c in calls if c.kind not in _TELLS_NOBODY and c.started_s > ended_s)
    return min(later, default=None)


_TELLS_NOBODY = frozenset({Kind.RECEIVE, Kind.LAYOUT, Kind.FINDING, Kind.IN_CPP, Kind.ENDING})


def _candidates(sends: Iterable[tuple[int, Call]], until: float | None, taken: int) -> list[int]:
    """The senders of messages that were sent until then, if these are more than ``taken`` and one."""
    pending = [sender for sender, call in sends if until is None or call.started_s <= until]
    return sorted(set(pending)) if len(pending) > taken + 1 else []
