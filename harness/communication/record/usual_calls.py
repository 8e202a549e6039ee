"""``UsualCalls``: records in one step a call that is like an earlier one, and its end.

Nearly all calls are made with arguments, on a group and from a line that were seen before. Such a call is
looked up and written into the log in one function, without any of those that find out what is new: behind a
collective nothing is in the processor's caches any more, and each function more takes 0.2 us there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from sys import _getframe
from time import monotonic  # by name, as in the log
from typing import Any

from harness.communication.call_log import COUNT, ENTRIES, ENTRY_BYTES, FIRST, CallLog, pack_entry
from harness.communication.log_entries import OWN_WORK
from harness.communication.record.known_groups import KnownGroups
from harness.communication.record.other_calls import OtherCalls
from harness.communication.record.python_threads import LIVE
from harness.communication.record.python_threads import count as python_threads
from harness.communication.record.user_lines import FURTHER


class UsualCalls(OtherCalls):
    """Records one rank's calls that are like earlier ones; ``members_of`` is that of ``Recorder``."""

    def __init__(self, log: CallLog, members_of: Callable[[Any], tuple[int, ...]]) -> None:
        super().__init__(log, KnownGroups(members_of, log.text))
        self._groups = self._known.by_object  # the same dictionary: one look-up less at each call
        self._texts: dict[Hashable, int] = {}  # what calls are given, by their keys; kept for later tests
        # Tokens of the log by id of a work handle, which a later one has again after it.
        self.open: dict[int, int] = {}

    def again(self, group: Any, key: Hashable, own_work: bool, numbered: bool) -> int | None:
        """Does what ``Recorder.began`` does where the group and the ``key`` are known.

        None, and nothing is recorded, where one of them is not, or where an object collective or a library is
        around. ``numbered``: calls like this have numbers in their group. To be called by the function that
        torch.distributed, or the user, calls.

        The frames of what decorates a function of torch.distributed are passed without a look, and what calls
        that function has to be such a function, too, or the user's.
        """
        places = self._places
        if not places.plain:
            return None
        out = 2
        try:
            known, text = self._groups[id(group)], self._texts[key]
            frame = _getframe(out)
            while further := FURTHER.get(id(frame.f_code)):
                out += further
                frame = _getframe(out)
                found = places.texts.get((id(frame.f_code), frame.f_lasti))
                if found is not None:
                    break
            else:  # a line that is new, or the user calls the group's method
                found = places.texts.get((id(frame.f_code), frame.f_lasti)) or places.of_user(frame)
                if found is None:
                    return None
        except (KeyError, ValueError):  # a thread of torch has no such frame
            return None
        place, places.last = found
        sequence = number = 1
        if numbered:
            known.sequence = sequence = known.sequence + 1
            number = sequence - known.parts
        flags = OWN_WORK if own_work else 0
        threads = 1 if len(LIVE) == 1 else python_threads()
        log = self.log  # whose ``begin`` is written out here
        token, now = log.count, monotonic()
        wait = 0.0 if own_work else now
        at = token % ENTRIES * ENTRY_BYTES + FIRST
        pack_entry(log.memory, at, text, place, sequence, number, flags, threads, known.text, now, wait, 0.0)
        log.count = log.numbers[COUNT] = token + 1
        return token
