"""``mismatch``: how a rank's communication differs from what its test expects, a line a call. Pure.

An expected line has the parts of a call (``history.parts``) that matter, in their order, the operation first:
"all_reduce", "all_reduce 4096 bytes on {0, 1}", "send (3,) float32 to rank 1 tag 7".
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from harness.communication.history import Communication, parts
from harness.communication_call import Call
from harness.errors import UsageError

Expected = Sequence[str] | Mapping[str, int]
# Of lines that are as expected, so many are shown around the others.
_CONTEXT = 2


def mismatch(expected: Expected, seen: Communication) -> str:
    """What differs, "" for nothing.

    A sequence of lines is each call in order; a mapping is how often each line, in any order: a call counts
    for the first line that it fits. UsageError where ``expected`` is neither.
    """
    if isinstance(expected, str) or not isinstance(expected, Mapping | Sequence):
        raise UsageError(f"expected communication is a list of lines or a dict of counts, not {expected!r}")
    if isinstance(expected, Mapping):
        return _by_count(expected, seen)
    if len(expected) == len(seen.calls) and all(map(fits, expected, seen.calls)):
        return ""
    return _in_order(expected, seen)


def fits(line: str, call: Call) -> bool:
    """Whether a call has all the parts that the line names."""
    operation, *others = parts(call)
    rest = _without(line.strip(), operation)
    for part in others:
        if not rest:
            break
        shorter = _without(rest, part) if rest is not None else None
        rest = rest if shorter is None else shorter
    return rest == ""


def _without(line: str, part: str) -> str | None:
    """The line without the part at its beginning; None where it begins otherwise."""
    if not line.startswith(part):
        return None
    rest = line[len(part) :]
    return rest.lstrip() if not rest or rest[0] == " " else None


def _in_order(expected: Sequence[str], seen: Communication) -> str:
    # difflib compares what is equal: a call that fits a line stands there as that line.
    known = list(dict.fromkeys(expected))
    stand_in = [
        expected[n]
        if n < len(expected) and fits(expected[n], call)
        else next((line for line in known if fits(line, call)), f"\0{n}")
        for n, call in enumerate(seen.calls)
    ]
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, list(expected), stand_in, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        if group[0][3]:
            lines.append(f"  ... {group[0][3]} calls before")
        for what, low, high, first, last in group:
            lines += [f"- {line}" for line in expected[low:high] if what != "equal"]
            sign = " " if what == "equal" else "+"
            lines += [f"{sign} {_told(call)}" for call in seen.calls[first:last]]
    return "\n".join([f"{_count(len(expected))} expected (-), {len(seen.calls)} seen (+):", *lines])


def _by_count(expected: Mapping[str, int], seen: Communication) -> str:
    found: dict[str, list[Call]] = {line: [] for line in expected}
    beyond: list[Call] = []
    for call in seen.calls:
        line = next((line for line in expected if fits(line, call)), None)
        (beyond if line is None else found[line]).append(call)
    lines = []
    for line, calls in found.items():
        if len(calls) != expected[line]:
            lines.append(f"- {expected[line]} times {line}")
            lines += [f"+ {_told(call)}" for call in calls] or ["+ (none)"]
    lines += [f"+ {_told(call)}" for call in beyond]
    if not lines:
        return ""
    return "\n".join([f"{_count(sum(expected.values()))} expected (-), {len(seen.calls)} seen (+):", *lines])


def _count(number: int) -> str:
    return f"{number} call{'' if number == 1 else 's'}"


def _told(call: Call) -> str:
    return f"{' '.join(parts(call))}{'  ' + call.at.strip() if call.at else ''}"
