"""``value_findings``: where a rank got other numbers of a call than the call is defined to give. Pure.

The calls of all ranks are matched as for every other check, and ``expected_values.py`` says what each member
must get. Nothing is said where numbers mean nothing: in outputs that the operation does not define, of calls
that raised or whose arguments differ, and of tensors that the test wrote meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.communication.analysis.checks import Check, Finding, bounded
from harness.communication.analysis.matching import Messages, Row, difference, messages, rows
from harness.communication.tensor_values import element_types, reference
from harness.communication.tensor_values.element_types import Array
from harness.communication.tensor_values.expected_values import ExpectedValues, expected_of, numbers_of
from harness.communication.tensor_values.values import UNSEEN_END, CallValues, Tensor, ValuesByRank
from harness.outcomes import ranks_text

# Collectives after which all members have the same.
_REPLICATED = frozenset({"all_reduce", "all_reduce_coalesced"})
# Collectives whose result is one member's data.
_OF_ROOT = frozenset({"broadcast", "scatter"})


@dataclass(frozen=True, slots=True)
class Wrong:
    """Where a tensor differs from the reference: how many elements, the first's place, and both numbers."""

    count: int
    place: tuple[int, ...]
    got: str
    expected: str


def value_findings(values: ValuesByRank) -> tuple[Finding, ...]:
    """Wrong numbers, replicas that differ, and how many calls could not be compared."""
    by_call = {id(v.call): v for mine in values.values() for v in mine}
    calls = {rank: [v.call for v in mine] for rank, mine in values.items()}
    left_out: dict[str, int] = defaultdict(int)
    found: list[Finding] = []
    for row in rows(calls):
        here = {rank: by_call[id(call)] for rank, call in row.calls.items()}
        found += _of_row(row, here, left_out)
    found += _of_messages(messages(calls), by_call, left_out)
    return bounded([*found, *_left_out(left_out)])


def _left_out(left_out: Mapping[str, int]) -> Iterator[Finding]:
    if left_out:
        each = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()))
        yield Finding(Check.UNCOMPARED, f"calls whose values were not compared: {each}")


def _usable(values: Iterable[CallValues], left_out: dict[str, int]) -> bool:
    """Whether what belongs to one call can be compared; counts it where it cannot, and nobody said why."""
    together = list(values)
    if any(v.raised or v.call.raised for v in together):
        return False
    why = next((v.why_not for v in together if v.why_not), "")
    if not why and any(v.outputs is None for v in together):
        why = UNSEEN_END
    if why:
        left_out[why] += 1
    return not why


# -- collectives


def _of_row(row: Row, here: Mapping[int, CallValues], left_out: dict[str, int]) -> Iterator[Finding]:
    members = row.first.signature.members
    if not members or set(here) != set(members) or difference(row) is not None:
        return
    together = [here[member] for member in members]
    operation = together[0].operation
    if any(v.operation != operation for v in together) or operation not in reference.OPERATIONS:
        return
    if not _usable(together, left_out):
        return
    expected = expected_of(together)
    if expected is None:
        left_out["of operations or dtypes without a reference"] += 1
        return
    wrong = list(_wrong_of_members(expected, together))
    yield from _told(row, together, wrong)
    if not wrong and operation in _REPLICATED:
        yield from _replicas(row, together)


@dataclass(frozen=True, slots=True)
class _WrongOfMember:
    """What is wrong with one output of a member."""

    member: int
    output: int
    wrong: Wrong


def _wrong_of_members(expected: ExpectedValues, together: Sequence[CallValues]) -> Iterator[_WrongOfMember]:
    for member, arrays in expected.got.items():
        outputs = together[member].outputs or ()
        if len(outputs) != len(arrays):
            continue  # of gather, where a backend lets the root leave its list out
        for number, (tensor, right) in enumerate(zip(outputs, arrays, strict=True)):
            bound = expected.bound[member][number] if expected.bound is not None else None
            wrong = wrong_bytes(tensor, right) if expected.moved else wrong_numbers(tensor, right, bound)
            if wrong is not None:
                yield _WrongOfMember(member, number, wrong)
                break


def wrong_bytes(tensor: Tensor, right: Array) -> Wrong | None:
    """Where a tensor's elements are not ``right``, rows of bytes; None where they are, or are not as many."""
    got = element_types.rows_of_bytes(tensor.data, tensor.elements)
    if got.shape != right.shape:
        return None
    return _first(tensor, (got != right).any(axis=1), got, right)


def wrong_numbers(tensor: Tensor, right: Array, bound: Array | None) -> Wrong | None:
    """Where a tensor's numbers are not within ``bound`` of ``right`` (flat); None where they are.

    An infinite bound allows anything, and a NaN nothing but NaN. Without a bound numbers must be equal, but
    where ``right`` is NaN, of which a minimum may make what it likes.
    """
    got = numbers_of(tensor)
    if got is None or got.shape != right.shape:
        return None
    with np.errstate(all="ignore"):
        if bound is None:
            differs = (got != right) & ~np.isnan(right) if right.dtype.kind in "fc" else got != right
        else:
            off = np.isfinite(bound) & ~(np.abs(got - right) <= bound)
            differs = off | (np.isnan(bound) & ~np.isnan(got))
    rows_got = element_types.rows_of_bytes(tensor.data, tensor.elements)
    return _first(tensor, differs, rows_got, right)


def _first(tensor: Tensor, differs: Array, got: Array, right: Array) -> Wrong | None:
    count = int(np.count_nonzero(differs))
    if not count:
        return None
    at = int(np.argmax(differs))
    place = tuple(int(i) for i in np.unravel_index(at, tensor.shape)) if tensor.shape else ()
    return Wrong(count, place, *_texts(tensor.dtype, got[at : at + 1], right[at : at + 1]))


def _texts(dtype: str, got: Array, right: Array) -> tuple[str, str]:
    """Two elements for people, with as many digits as it takes to tell them apart."""
    numbers = element_types.numbers(got, dtype)
    expected = right if right.ndim == 1 else element_types.numbers(right, dtype)
    if numbers is None or expected is None:
        return f"0x{got.tobytes().hex()}", f"0x{right.tobytes().hex()}"
    for digits in (6, 9, 17):
        texts = _number_text(numbers[0], digits), _number_text(expected[0], digits)
        if texts[0] != texts[1]:
            return texts
    return f"{texts[0]} (0x{got.tobytes().hex()})", f"{texts[1]} (0x{right.tobytes().hex()})"


def _number_text(number: Any, digits: int) -> str:
    if number.dtype.kind == "f":
        return repr(float(f"{number:.{digits}g}"))
    if number.dtype.kind == "c":
        return repr(complex(*(float(f"{part:.{digits}g}") for part in (number.real, number.imag))))
    return str(number)


# -- what is said


def _told(row: Row, together: Sequence[CallValues], wrong: Sequence[_WrongOfMember]) -> Iterator[Finding]:
    """A finding for all members that got the same wrong number at the same place."""
    members = row.first.signature.members
    alike: dict[tuple[int, Wrong], list[int]] = defaultdict(list)
    for each in wrong:
        alike[each.output, each.wrong].append(members[each.member])
    for (output, what), ranks in alike.items():
        values = together[members.index(ranks[0])]
        tensors = values.outputs or ()
        of = f" of tensor {output}" if len(tensors) > 1 else ""
        call = row.calls[ranks[0]]
        text = (
            f"{ranks_text(ranks)} got {what.got} at {_place(what)}{of} of {call}{call.at}, "
            f"for {what.expected}: {_definition(values, members)}; {_count(what, tensors[output])}"
        )
        yield Finding(Check.VALUES, text, tuple(ranks))


def _place(wrong: Wrong) -> str:
    return f"[{', '.join(map(str, wrong.place))}]"


def _count(wrong: Wrong, tensor: Tensor) -> str:
    if tensor.elements == 1:
        return "the only element"
    return f"{wrong.count} of {tensor.elements} elements {'is' if wrong.count == 1 else 'are'} wrong"


def _definition(values: CallValues, members: Sequence[int]) -> str:
    s = values.call.signature
    dtype = (values.outputs or values.inputs)[0].dtype
    if values.operation in reference.REDUCING:
        return f"{s.reduce_op.lower() or 'sum'} of {dtype} over {ranks_text(members)}"
    if values.operation in _OF_ROOT:
        return f"{dtype} from rank {s.root}"
    return f"{dtype} from {ranks_text(members)}"


def _replicas(row: Row, together: Sequence[CallValues]) -> Iterator[Finding]:
    """Results of a reduction that are right, but are not the same on all members."""
    members = row.first.signature.members
    first = together[0].outputs or ()
    for number, tensor in enumerate(first):
        right = element_types.rows_of_bytes(tensor.data, tensor.elements)
        for member, values in zip(members[1:], together[1:], strict=True):
            theirs = (values.outputs or ())[number]
            wrong = wrong_bytes(theirs, right)
            if wrong is not None:
                call = row.calls[member]
                text = (
                    f"rank {member} got {wrong.got} at {_place(wrong)} of {call}{call.at}, rank {members[0]} "
                    f"{wrong.expected}: right up to rounding, but not the same in "
                    f"{wrong.count} of {theirs.elements} elements"
                )
                yield Finding(Check.REPLICAS, text, (member,))
                return


# -- messages


def _of_messages(
    found: Messages, by_call: Mapping[int, CallValues], left_out: dict[str, int]
) -> Iterator[Finding]:
    for channel, receives in found.receives.items():
        sends = found.sends.get(channel, ())
        if found.from_any.get((channel.group, channel.receiver, channel.tag)):
            continue  # nobody can say which message belongs to which receive
        if any(by_call[id(call)].raised for call in (*sends, *receives)):
            continue  # nobody can say whether its message is on its way
        for send, receive in zip(sends, receives, strict=False):
            ends = by_call[id(send)], by_call[id(receive)]
            if send.signature.agreed == receive.signature.agreed and _usable(ends, left_out):
                yield from _of_message(channel.receiver, ends[1], ends[:1])
    for (group, receiver, tag), receives in found.from_any.items():
        for receive in receives:
            got = by_call[id(receive)]
            sends_to = [(rank, by_call[id(c)]) for rank, c in found.sends_to(group, receiver, tag)]
            heard = _heard(got, sends_to)
            if heard and _usable((got, *heard), left_out):
                yield from _of_message(receiver, got, heard)


def _heard(got: CallValues, sends: Sequence[tuple[int, CallValues]]) -> list[CallValues]:
    """The messages that a receive from any source may have got."""
    members = got.call.signature.members
    source = members[got.source] if got.source is not None and 0 <= got.source < len(members) else None
    return [send for rank, send in sends if source is None or rank == source]


def _of_message(receiver: int, got: CallValues, sends: Sequence[CallValues]) -> Iterator[Finding]:
    """A receive that got none of the messages that it may have got."""
    (tensor,) = got.outputs or ()
    wrongs = []
    for send in sends:
        sent = send.inputs[0]
        right = element_types.rows_of_bytes(sent.data, sent.elements)
        wrong = wrong_bytes(tensor, right)
        if wrong is None:
            return
        wrongs.append((wrong, send))
    wrong, send = min(wrongs, key=lambda each: each[0].count)
    yield Finding(
        Check.VALUES,
        f"rank {receiver} got {wrong.got} at {_place(wrong)} of {got.call}{got.call.at}, for "
        f"{wrong.expected}: {tensor.dtype} of the {send.call}{send.call.at}; {_count(wrong, tensor)}",
        (receiver,),
    )
