"""``CallLog``: some pages of memory in which a rank writes down each of its communication calls.

A rank that is a process has them in a memory file of its own, which the parent can read even where the rank
is stuck in C or dead. The parent never maps that file: where it can be shrunk, a mapping behind its end kills
the process that reads it. Layout: a head, an entry that is kept, a ring of entries of the same size, and the
texts to which they point (signatures and groups as JSON, places as they are), each written once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from time import monotonic  # by name: calls are noted while a test may have it replaced
from typing import Any

from harness.communication.log_entries import (
    BOUNDED,
    LENGTH,
    NO_TEXT,
    RAISED,
    REFUSED,
    Entry,
    LoggedCalls,
    place_of,
)
from harness.communication_call import Call, Signature, to_json
from harness.field_checks import LARGEST_S

# Calls begun, when one of them last changed, start of the test on the monotonic clock (0.0: not begun), bytes
# of texts. The second is a time as well, but only ever compared, bit by bit.
_HEAD = Struct("=QQdQ")
# Offsets of signature and place among the texts; sequence, number; flags, threads; offset of the group;
# start, wait, end (0.0: not yet) on the monotonic clock. Times and the numbers of the head are at multiples
# of 8 bytes: in an array of these a number is set in half the time that a Struct needs.
_ENTRY = Struct("=IIIIHHIddd")
ENTRY_BYTES = _ENTRY.size
pack_entry = _ENTRY.pack_into
COUNT, CHANGED, _BEGAN, _TEXT_BYTES = range(4)  # of the head, as indices of that array
_WAIT, _END = (ENTRY_BYTES - 16) // 8, (ENTRY_BYTES - 8) // 8
_FLAGS_AT, _FLAGS = 16, Struct("=H")
# Behind the head and the next two, as indices of those arrays: when the test ended on the monotonic clock
# (0.0: it has not), and the offset of its name among the texts.
_ENDED, _NAME = 6, 7
# In the copy of a log of a rank on another host, behind the head: when that host last looked at the rank's
# process, on this host's monotonic clock (0.0: never), and what it saw, as a sum of the next three.
_OBSERVED = Struct("=dI")
_OBSERVED_AT = _HEAD.size
_CAN_MOVE, _HELPED, _STOPPED = 1, 2, 4
# Behind these: one more than the token of the call that is kept when the ring drops it, 0 for none; and its
# entry, before those of the ring.
_KEPT, _KEPT_TOKEN_AT, _KEPT_AT = Struct("=I"), 44, 64
FIRST = _KEPT_AT + ENTRY_BYTES
DOUBLES, FIRST_END = ENTRY_BYTES // 8, FIRST // 8 + _END  # an entry's size and the first end, in that array
ENTRIES = 1024
_TEXTS = FIRST + ENTRIES * _ENTRY.size
LOG_BYTES = 256 * 1024
# The bytes of texts that are kept for later tests: what is more is read again after each of them.
_KEPT_TEXTS = 16 * 1024
# The entries that are read together with the head: more than most tests have.
_READ_AT_ONCE = 48
_ENCODER = json.JSONEncoder(separators=(",", ":"))

# What the names of memory files begin with. A person who looks at a run finds the logs by it (harness/look).
FILE_NAME = "harness-calls"


def memory_file(of: str = "", rank: int = 0) -> int:
    """Makes the memory file of one rank's log, and returns its descriptor.

    ``of`` tells the rank's set from others of this process, for who looks at it from outside.
    The rank maps it and would die of SIGBUS in its next call, so nobody may shrink it, where the kernel can
    forbid that.
    """
    memory = os.memfd_create(f"{FILE_NAME}.{of}.{rank}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, LOG_BYTES)
    with contextlib.suppress(OSError):  # some sandboxes have no seals: such a rank harms itself alone
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return memory


class CallLog:
    """The writer of a rank's log, used in that rank; by one thread at a time.

    ``count``: how many calls began since the log was cleared. ``numbers`` and ``times`` are views of its
    ``memory``, in which ``usual_calls.py`` writes a usual call as ``begin`` does, and ``work_taps.py`` writes
    its end as ``end`` does, each without a function more.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        self.numbers = memoryview(memory).cast("Q")
        self.times = memoryview(memory).cast("d")
        self.count = 0
        self._used = LENGTH.size  # offset 0 is NO_TEXT
        self._known: dict[str | Signature, int] = {}
        self.edition = 0  # a number of ``text`` holds in the same edition

    def clear(self) -> None:
        """Removes what the log says of an earlier test."""
        self.count = 0
        if self._used > _KEPT_TEXTS:
            self._used = LENGTH.size
            self._known.clear()
            self.edition += 1
        _HEAD.pack_into(self.memory, 0, 0, 0, 0.0, self._used)
        _KEPT.pack_into(self.memory, _KEPT_TOKEN_AT, 0)
        self.times[_ENDED] = 0.0
        self.numbers[_NAME] = NO_TEXT

    def keep(self, token: int) -> None:
        """Keeps a call, as it stands now, for when the ring drops it, in place of another; -1 for none."""
        if token >= 0 and self.count - token <= ENTRIES:
            self.memory[_KEPT_AT:FIRST] = self.memory[_at(token) : _at(token) + ENTRY_BYTES]
        _KEPT.pack_into(self.memory, _KEPT_TOKEN_AT, token + 1)

    def last(self, count: int) -> Sequence[Call]:
        """The last ``count`` calls, oldest first; fewer where the ring has dropped some."""
        return read(self.memory)[-count:] if count else ()

    def begin_test(self, name: str = "") -> None:
        """Records that the rank has all that it needs, and begins its test, which people know by ``name``."""
        self.numbers[_NAME] = self.text(name)
        self.times[_BEGAN] = monotonic()

    def end_test(self) -> None:
        """Records that the rank is done with its test, and only has to report."""
        self.times[_ENDED] = monotonic()

    @property
    def test_has_ended(self) -> bool:
        """Whether the rank is done with its test, so that what it still calls is the harness's doing."""
        return self.times[_ENDED] != 0.0

    def text(self, value: str | Signature) -> int:
        """The number of a text or a signature in this log, which is written there at its first use."""
        known = self._known.get(value)
        if known is not None:
            return known
        text = value if isinstance(value, str) else _ENCODER.encode(to_json(value))
        data = text.encode(errors="replace")
        offset = self._used
        if not data or _TEXTS + offset + LENGTH.size + len(data) > LOG_BYTES:
            return NO_TEXT
        at = _TEXTS + offset
        self.memory[at : at + LENGTH.size + len(data)] = LENGTH.pack(len(data)) + data
        self._used = offset + LENGTH.size + len(data)
        self.numbers[_TEXT_BYTES] = self._used
        self._known[value] = offset
        return offset

    def begin(
        self,
        signature: int,
        place: int,
        sequence: int,
        number: int = 1,
        threads: int = 1,
        waits: bool = False,
        flags: int = 0,
        group: int = NO_TEXT,
    ) -> int:
        """Records that a call starts; returns its token for ``wait`` and ``end``.

        ``signature``, ``place`` and ``group`` are numbers of ``text``; a signature that has its group in it
        needs no ``group``. ``waits``: the rank waits for it at once. ``flags``: any of ``OWN_WORK``,
        ``UNSEEN``, ``BY_LIBRARY``.
        """
        token, now = self.count, monotonic()
        at = token % ENTRIES * ENTRY_BYTES + FIRST
        wait = now if waits else 0.0
        pack_entry(self.memory, at, signature, place, sequence, number, flags, threads, group, now, wait, 0.0)
        self.count = self.numbers[COUNT] = token + 1
        return token

    def wait(self, token: int, bounded: bool = False, now: float = 0.0) -> None:
        """Records that the rank begins to wait for a call, at the moment ``now`` (0.0: this one).

        ``bounded``: with a timeout of the wait's own.
        """
        if token >= 0 and self.count - token <= ENTRIES:
            if bounded:
                self._add_flag(token, BOUNDED)
            times, end = self.times, token % ENTRIES * DOUBLES + FIRST_END
            times[end - 1] = times[CHANGED] = now or monotonic()
            times[end] = 0.0  # it may have counted as over: nobody was known to wait for it

    def gave_up(self, token: int) -> None:
        """Records that a wait for a call has timed out, and that the call goes on."""
        if token >= 0 and self.count - token <= ENTRIES:
            self._set_flags(token, lambda flags: flags & ~BOUNDED)
            self.times[token % ENTRIES * DOUBLES + FIRST_END - 1] = 0.0
            self.times[CHANGED] = monotonic()

    def end(self, token: int) -> None:
        """Records that a call has ended."""
        if token >= 0 and self.count - token <= ENTRIES:  # else the ring has dropped it since
            times = self.times
            times[token % ENTRIES * DOUBLES + FIRST_END] = times[CHANGED] = monotonic()

    def raised(self, token: int, *, refused: bool = False) -> None:
        """Records that a call has ended by an exception; ``refused``: before it communicated."""
        self._add_flag(token, RAISED | (REFUSED if refused else 0))
        self.end(token)

    def call(self, token: int) -> Call | None:
        """The call of a token as it stands in the log; None where it was not recorded, or was dropped."""
        if token < 0 or self.count - token > ENTRIES:
            return None
        entry: Any = _ENTRY.unpack_from(self.memory, _at(token))
        found = LoggedCalls((entry,), self.memory[_TEXTS : _TEXTS + self._used])
        return found[0] if found else None

    def _add_flag(self, token: int, flag: int) -> None:
        if token >= 0 and self.count - token <= ENTRIES:
            self._set_flags(token, lambda flags: flags | flag)

    def _set_flags(self, token: int, change: Callable[[int], int]) -> None:
        at = _at(token) + _FLAGS_AT
        (flags,) = _FLAGS.unpack_from(self.memory, at)
        _FLAGS.pack_into(self.memory, at, change(flags))


def _at(token: int) -> int:
    return FIRST + (token % ENTRIES) * _ENTRY.size


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a rank's log; between two equal ones the rank began and ended nothing.

    ``changes`` grows with each change to a call that had begun.
    """

    count: int = 0
    changes: int = 0
    began_s: float | None = None


def read_head(memory: int | mmap.mmap) -> Head:
    """The head of a log, of which the rank may have cut off a part or all."""
    count, changes, began, _ = _HEAD.unpack(_read(memory, 0, _HEAD.size))
    return Head(count, changes, began if 0.0 < began <= LARGEST_S else None)


def read_test(memory: int) -> tuple[str, bool]:
    """The name of a log's test, "" where it is unknown, and whether the rank has ended that test."""
    head = memoryview(_read(memory, 0, FIRST))
    name, used = head.cast("Q")[_NAME], head.cast("Q")[_TEXT_BYTES]
    texts = _read(memory, _TEXTS, min(used, LOG_BYTES - _TEXTS))
    return place_of(texts, name), head.cast("d")[_ENDED] != 0.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What a rank's own host saw of its process, for a parent on another host.

    ``at_s`` is on the reader's monotonic clock. ``can_move``: a thread could run; ``helped``: it has started
    processes; ``stopped``: by a signal.
    """

    at_s: float
    can_move: bool
    helped: bool
    stopped: bool


def read_observation(memory: int) -> Observation | None:
    """The last observation in a log that is a copy; None where there is none yet."""
    at_s, seen = _OBSERVED.unpack(_read(memory, _OBSERVED_AT, _OBSERVED.size))
    if not 0.0 < at_s <= LARGEST_S:
        return None
    return Observation(at_s, bool(seen & _CAN_MOVE), bool(seen & _HELPED), bool(seen & _STOPPED))


def shifted_copy(memory: int, shift_s: float, observation: Observation) -> bytes:
    """The used part of a log for a reader on another host, whose clock is ``shift_s`` seconds ahead."""
    count, changes, began, used = _HEAD.unpack(_read(memory, 0, _HEAD.size))
    ring = _read(memory, 0, FIRST + min(count, ENTRIES) * ENTRY_BYTES)
    page = bytearray(ring)
    _HEAD.pack_into(page, 0, count, changes, began + shift_s if began else 0.0, used)
    seen = _CAN_MOVE * observation.can_move + _HELPED * observation.helped + _STOPPED * observation.stopped
    _OBSERVED.pack_into(page, _OBSERVED_AT, observation.at_s, seen)
    times = memoryview(page).cast("d")
    for at in range(_KEPT_AT // 8, len(times), ENTRY_BYTES // 8):
        for time in range(at + _WAIT - 1, at + _END + 1):
            if times[time]:
                times[time] += shift_s
    times.release()
    if not used or not count:
        return bytes(page)
    texts = _read(memory, _TEXTS, min(used, LOG_BYTES - _TEXTS))
    return bytes(page).ljust(_TEXTS, b"\0") + texts


def read(memory: int | mmap.mmap) -> LoggedCalls:
    """A rank's last calls, oldest first, at most ``ENTRIES`` and the kept one, from its file or its memory.

    Entries that no rank writes are left out: the test may have overwritten the log.
    """
    start = _read(memory, 0, FIRST + _READ_AT_ONCE * ENTRY_BYTES)
    count, _, _, used = _HEAD.unpack_from(start)
    if not count:
        return LoggedCalls((), b"")
    size = min(count, ENTRIES) * ENTRY_BYTES
    ring = start[FIRST : FIRST + size] if count <= _READ_AT_ONCE else _read(memory, FIRST, size)
    texts = _read(memory, _TEXTS, min(used, LOG_BYTES - _TEXTS))
    entries: list[Entry] = list(_ENTRY.iter_unpack(ring))
    first = count % ENTRIES if count > ENTRIES else 0
    (kept_token,) = _KEPT.unpack_from(start, _KEPT_TOKEN_AT)
    kept = start[_KEPT_AT:FIRST] if kept_token and count - kept_token >= ENTRIES else b""
    return LoggedCalls([*_ENTRY.iter_unpack(kept), *entries[first:], *entries[:first]], texts)


def _read(memory: int | mmap.mmap, start: int, length: int) -> bytes:
    if isinstance(memory, int):
        return os.pread(memory, length, start).ljust(length, b"\0")
    return memory[start : start + length]
