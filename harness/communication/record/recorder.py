"""``Recorder``: writes the communication calls of one rank into its log, with what they were given and where.

It numbers the calls of each group, pairs each with the wait for it, and finds the user's line. What calls it
is in ``taps.py``, what is known of a group in ``known_groups.py``. A call that is like an earlier one never
gets here, but to ``usual_calls.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from time import monotonic  # by name, as in the log
from typing import Any

from harness.communication.analysis.checks import Check
from harness.communication.call_log import ENTRIES, CallLog
from harness.communication.log_entries import BY_LIBRARY, OWN_WORK, UNSEEN
from harness.communication.record.arguments import KINDS, Arguments, are_real, key_of
from harness.communication.record.given_futures import GivenFutures
from harness.communication.record.known_groups import KnownGroup
from harness.communication.record.memory_use import Used
from harness.communication.record.pending_calls import PendingCalls
from harness.communication.record.python_threads import LIVE
from harness.communication.record.python_threads import count as python_threads
from harness.communication.record.signatures import call_text, ending_text
from harness.communication.record.user_lines import ObjectCall
from harness.communication.record.usual_calls import UsualCalls
from harness.communication_call import Kind, Signature

# The token of a call that is not recorded: it is merely traced.
NOT_RECORDED = -1
# What a call raises for its arguments, before it communicates.
REFUSALS = (TypeError, ValueError, NotImplementedError, AssertionError)
# What it says where no backend has the operation, as a RuntimeError.
_UNSUPPORTED = re.compile(
    r"does not support|not supported|not implemented|No backend type associated|Unrecognized"
)


class Recorder(UsualCalls):
    """Records one rank's calls; ``members_of`` gives the global ranks of a process group, () if unknown."""

    def __init__(self, log: CallLog, members_of: Callable[[Any], tuple[int, ...]]) -> None:
        super().__init__(log, members_of)
        self._edition = log.edition
        self.not_waited: dict[int, int] = {}  # those of ``open`` that the rank does not wait for yet
        self.futures = GivenFutures()
        self.pending = PendingCalls()  # whose memory is watched
        self._unseen: dict[int, int] = {}  # address of a tensor -> token of the log

    def write_to(self, log: CallLog) -> None:
        """Writes to another log from now on; to be called before the first call."""
        self.log, self._edition = log, log.edition
        self._places.write, self._known.write = log.text, log.text

    def restart(self) -> None:
        """Makes the numbers start from 1 again, because the groups are new ones."""
        self.forget_groups()
        self.forget_calls()

    def forget_calls(self) -> None:
        """Forgets the calls of the test before; the groups stay."""
        super().forget_calls()
        self.open.clear()
        self.not_waited.clear()
        self.futures.clear()
        self._unseen.clear()
        self.pending.clear()
        if self.log.edition != self._edition:
            self._edition = self.log.edition
            self._places.forget_texts()
            self._texts.clear()
            self._known.write_again()

    # -- calls on a group

    def began(
        self,
        group: Any,
        operation: str,
        key: Hashable,
        arguments: Callable[..., Arguments],
        given: tuple[Any, ...] = (),
        own_work: bool = False,
        unseen: bool = False,
    ) -> int:
        """Records that a call starts, whatever it is like; returns its token.

        ``key`` stands for operation and arguments: ``arguments(*given)`` is called for the first of each.
        ``unseen``: C++ makes the call, and will wait for it. The user's line is looked for above the function
        that calls this one.
        """
        known = self._groups.get(id(group)) or self._known.find(group)
        found = self._texts.get(key)
        if found is None:
            found = self._text(operation, key, arguments(*given))
            if found == NOT_RECORDED:
                return NOT_RECORDED
        flags = OWN_WORK if own_work else UNSEEN if unseen else 0
        waits = not flags
        places = self._places
        place = places.find(3)
        if places.plain and operation not in KINDS:
            known.sequence = sequence = known.sequence + 1
            number = sequence - known.parts
        else:
            sequence, number = self._numbers(known, operation, places.around)
            if places.around is not None:
                found = self._named(operation, key, places.around.name, arguments, given)
            if places.by_library:
                flags |= BY_LIBRARY
        threads = 1 if len(LIVE) == 1 else python_threads()
        return self.log.begin(found, place, sequence, number, threads, waits, flags, known.text)

    def _numbers(self, group: KnownGroup, operation: str, around: ObjectCall | None) -> tuple[int, int]:
        """The numbers in its group of a call: by the backend's calls and by the user's.

        Messages are counted by nobody, because only two ranks know of one. A part of the user's call
        ``around`` it has that one's number, if the last call was a part of it, too.
        """
        if operation in KINDS:
            return 1, 1
        group.sequence += 1
        if around is not None:
            if group.sequence == group.part_at + 1 and around.continues(group.object_call):
                group.parts += 1
            group.object_call, group.part_at = around, group.sequence
        return group.sequence, group.sequence - group.parts

    def _text(self, operation: str, key: Hashable, arguments: Arguments) -> int:
        if not are_real(arguments):
            return NOT_RECORDED
        found = self._texts[key] = self.log.text(call_text(operation, arguments))
        return found

    def _named(
        self,
        operation: str,
        key: Hashable,
        name: str,
        arguments: Callable[..., Arguments],
        given: tuple[Any, ...],
    ) -> int:
        """What a backend's call is given that is a part of the user's call ``name``."""
        found = self._texts.get((name, key))
        if found is None:
            text = call_text(operation, arguments(*given), name)
            found = self._texts[name, key] = self.log.text(text)
        return found

    def returned(self, token: int, work: Any, own_work: bool = False) -> None:
        """Records that the call returned, which ends the call unless there is a work handle.

        With ``own_work`` the rank goes on before it waits for that.
        """
        if work is None:
            self.log.end(token)
            return
        self.open[id(work)] = token
        if own_work:
            self.not_waited[id(work)] = token

    def refused(self, token: int, group: Any, operation: str, error: BaseException) -> None:
        """Records that a call raised. One that was refused for its arguments gets no number in its group."""
        refused = isinstance(error, REFUSALS) or _UNSUPPORTED.search(str(error)) is not None
        self.log.raised(token, refused=refused)
        known = self._groups.get(id(group))
        if known is not None and refused and token != NOT_RECORDED and operation not in KINDS:
            known.sequence -= 1

    def watches(
        self,
        operation: str,
        used: Used,
        arguments: Callable[..., Arguments],
        given: tuple[Any, ...],
        work: Any,
    ) -> None:
        """Watches the memory of a call that has returned its work handle to the test.

        ``arguments(*given)`` says what each of the tensors is to the call.
        """
        places = self._places
        if not places.by_library:
            found = self.pending.began(operation, places.last, used, arguments, given, work)
            if found:
                self._tell(Check.OVERLAP, found)

    def meets(self, operation: str, used: Used) -> None:
        """Looks whether a call for which the rank waits at once uses memory of calls under way."""
        if not self._places.by_library:
            self._tell(Check.OVERLAP, self.pending.meets(operation, self._places.last, used))

    def _tell(self, check: Check, lines: Iterable[str]) -> None:
        """Writes findings into the log."""
        for line in lines:
            place = self._places.find(2)
            at = f" ({self._places.last})" if self._places.last and check is Check.WRITTEN else ""
            finding = Signature(check.value, kind=Kind.FINDING, key=f"{line}{at}")
            self.log.end(self.log.begin(self.log.text(finding), place, 1))

    def learns_of(self, work: Any) -> None:
        """Records that the test knows otherwise than by a wait that a call is over, or has others wait."""
        self.pending.forget(work)
        self.waited(work)

    def gives_future(self, work: Any, future: Any) -> None:
        """Records that the test has the future of a call, by which it may learn of the end, or wait."""
        token = self.open.get(id(work))
        self.learns_of(work)
        if token is not None:
            self.futures.add((token,), work, future)

    def chains(self, futures: Iterable[Any], made: Any) -> None:
        """Records that the test has made a future that comes after others, by ``then`` or ``collect_all``."""
        known = self.futures.tokens
        self.futures.add([token for each in futures for token in known(each)], made)

    def waits(self, work: object, bounded: bool = False) -> None:
        """Records that the rank begins to wait for a work handle or a future; ``bounded``: with a timeout."""
        token = self.not_waited.pop(id(work), None)
        if token is None and bounded:
            token = self.open.get(id(work))
        if token is not None:
            self.log.wait(token, bounded)
        elif self.futures.tokens_of:
            now = monotonic()  # one moment for all calls of a future that was made of several
            for each in self.futures.tokens(work):
                self.log.wait(each, bounded, now)

    def gave_up(self, work: object) -> None:
        """Records that a wait with a timeout has raised, and that its call goes on."""
        token = self.open.get(id(work))
        if token is not None:
            self.not_waited[id(work)] = token
            self.log.gave_up(token)

    def waited(self, work: object, raised: bool = False) -> None:
        """Records that a call has ended, because a wait for its handle or future returned or ``raised``."""
        if self.pending.calls and (found := self.pending.waited(work)):
            self._tell(Check.WRITTEN, found)
        token = self.open.pop(id(work), None)
        if token is not None:
            self.log.raised(token) if raised else self.log.end(token)
        elif self.futures.tokens_of:
            for each in self.futures.pop(work):
                self.log.raised(each) if raised else self.log.end(each)

    def compares(self, group: Any, parameters: str) -> int:
        """Records what ``DistributedDataParallel`` compares between the ranks of a group."""
        known = self._groups.get(id(group)) or self._known.find(group)
        return self.has_parameters(known.members, parameters, default=known.default)

    def ends_group(self, group: Any) -> None:
        """Records that the user's code ends a group, and nothing where it is the harness that does."""
        if self.log.test_has_ended:
            return
        place = self._places.find(2)
        if self._places.last:
            known = self._groups.get(id(group)) or self._known.find(group)
            self.log.end(self.log.begin(self.log.text(ending_text(known.told)), place, 1))

    # -- calls that C++ makes: their handles are not seen, but the tensors that they fill are

    def fills(self, token: int, addresses: Iterable[int]) -> None:
        """Records to which tensors a call writes, by the addresses of their storage."""
        if token == NOT_RECORDED:
            return
        if len(self._unseen) >= 4 * ENTRIES:
            self._unseen.clear()
        for address in addresses:
            self._unseen[address] = token

    def waits_for_tensor(self, address: int) -> int | None:
        """Records that the rank begins to wait for the call that fills a tensor; returns the call's token."""
        token = self._unseen.pop(address, None)
        if token is not None:
            self.log.wait(token)
        return token

    def cpp_ended(self, token: int, *, raised: bool = False) -> None:
        """Records that such a function has ended, or ``raised``, and with it the calls that it waited for."""
        for each in (token, *self._unseen.values()):
            self.ended(each, raised=raised)
        self._unseen.clear()


def key_and_arguments(operation: str, arguments: Arguments) -> tuple[Hashable, Callable[[], Arguments]]:
    """The key of a call whose arguments were read already, and a function that gives them."""
    return key_of(operation, arguments), lambda: arguments
