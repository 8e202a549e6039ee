"""``Recorder``: writes the communication calls of one rank into its log, with what they were given and where.

It numbers the calls of each group, pairs each with the wait for it, and finds the user's line. What calls it
is in ``taps.py``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any

from harness.calls import Kind, Signature
from harness.communication.arguments import Arguments, key_of, signature_of
from harness.communication.call_log import ENTRIES, CallLog

# Functions of torch.distributed of which one call makes several calls of the backend.
OBJECT_COLLECTIVES = frozenset(
    {"all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"}
    | {"send_object_list", "recv_object_list"}
)
_HARNESS = __file__.rpartition("/communication/")[0] + "/"
_live_threads: dict[int, Any] = threading._active  # type: ignore[attr-defined]  # its length, without a lock


class Recorder:
    """Records one rank's calls; ``members_of`` gives the global ranks of a process group, () if unknown."""

    def __init__(self, log: CallLog, members_of: Callable[[Any], tuple[int, ...]]) -> None:
        self._log = log
        self._members_of = members_of
        self._places = Places()
        self._groups: dict[str, Signature] = {}
        self._made: dict[str, tuple[int, str]] = {}  # group's name -> its generation, and where it was made
        self._sequence: dict[str, int] = {}
        self._number: dict[str, int] = {}
        self._object_call: ObjectCall | None = None
        self._signatures: dict[tuple[Any, ...], int] = {}
        self._open: dict[int, int] = {}  # id of a work handle -> token of the log
        self._unseen: dict[int, int] = {}  # address of a tensor -> token of the log

    def restart(self) -> None:
        """Makes the numbers start from 1 again, because the groups are new ones."""
        for kept in (self._groups, self._made, self._sequence, self._number, self._signatures):
            kept.clear()
        self.forget_calls()

    def forget_calls(self) -> None:
        """Forgets the calls of the test before; the groups stay."""
        self._open.clear()
        self._unseen.clear()
        self._signatures.clear()
        self._object_call = None

    # -- calls on a group

    def began(self, group: Any, operation: str, arguments: Arguments, *, unseen: bool = False) -> int:
        """Records that a call starts; returns its token. ``unseen``: C++ makes it, and will wait for it."""
        name = _group_name(group)
        known = self._groups.get(name) or self._group(group, name)
        key = (operation, name, key_of(arguments))
        signature = self._signatures.get(key)
        if signature is None:
            made = signature_of(operation, arguments, known)
            signature = self._signatures[key] = self._log.text(made)
        place, object_call = self._places.find(sys._getframe(1))
        sequence = self._sequence[name] = self._sequence.get(name, 0) + 1
        number = self._next_number(name, object_call)
        if object_call:
            signature = self._renamed(key, object_call.name, arguments, known)
        return self._log.begin(
            signature,
            self._log.text(place),
            sequence,
            number,
            threads=len(_live_threads),
            waits=operation == "monitored_barrier",
            own_work=arguments.own_work,
            unseen=unseen,
        )

    def _renamed(self, key: tuple[Any, ...], name: str, arguments: Arguments, group: Signature) -> int:
        """The signature of a backend's call that is a part of the user's call ``name``."""
        renamed = (name, *key)
        if renamed not in self._signatures:
            made = signature_of(key[0], arguments, group)
            self._signatures[renamed] = self._log.text(replace(made, operation=name))
        return self._signatures[renamed]

    def _next_number(self, name: str, object_call: ObjectCall | None) -> int:
        """The number of the user's call; that of the last one where this is a further part of it."""
        if object_call is None or not object_call.continues(self._object_call):
            self._number[name] = self._number.get(name, 0) + 1
        self._object_call = object_call
        return self._number[name]

    def _group(self, group: Any, name: str) -> Signature:
        generation, place = self._made.get(name, (0, ""))
        default = _is_default(group)
        members = self._members_of(group)
        found = Signature(
            "?",
            name,
            members=members,
            made_at="" if default else place,
            default=default,
            generation=generation,
            backend=_backend_name(group),
            timeout_s=_timeout_of(group),
        )
        self._groups[name] = found
        return found

    def returned(self, token: int, work: object) -> None:
        """Records that the call returned, which ends the call unless there is a work handle."""
        if work is None:
            self._log.end(token)
            return
        if len(self._open) >= 4 * ENTRIES:
            self._open.clear()  # handles without a wait; the ring has dropped their entries long ago
        self._open[id(work)] = token

    def waits(self, work: object, *, bounded: bool = False) -> None:
        """Records that the rank begins to wait for a work handle; ``bounded``: with a timeout."""
        token = self._open.get(id(work))
        if token is not None:
            self._log.wait(token, bounded=bounded)

    def waited(self, work: object) -> None:
        """Records that a call has ended, because a wait for its handle returned."""
        token = self._open.pop(id(work), None)
        if token is not None:
            self._log.end(token)

    # -- calls that C++ makes: their handles are not seen, but the tensors that they fill are

    def fills(self, token: int, addresses: Iterable[int]) -> None:
        """Records to which tensors a call writes, by the addresses of their storage."""
        if len(self._unseen) >= 4 * ENTRIES:
            self._unseen.clear()
        for address in addresses:
            self._unseen[address] = token

    def waits_for_tensor(self, address: int) -> int | None:
        """Records that the rank begins to wait for the call that fills a tensor; returns the call's token."""
        token = self._unseen.pop(address, None)
        if token is not None:
            self._log.wait(token)
        return token

    def ended(self, token: int) -> None:
        """Records that a call has ended."""
        self._log.end(token)

    def backward_begins(self) -> None:
        """Records that a backward pass begins, which waits in C++ for the calls that it starts."""
        self._log.backward(runs=True)

    def backward_ended(self) -> None:
        """Records that the backward pass has ended, and with it the calls that it waited for."""
        self._log.backward(runs=False)
        for token in self._unseen.values():
            self._log.end(token)
        self._unseen.clear()

    # -- groups and stores

    def makes_group(
        self, name: str, members: tuple[int, ...], *, default: bool, waits: bool, timeout_s: float | None
    ) -> int:
        """Records that the rank begins to make a group; ``waits`` where it is a member, or its maker waits."""
        place, _ = self._places.find(sys._getframe(1))
        generation = self._made.get(name, (-1, ""))[0] + 1
        self._made[name] = (generation, place)
        for kept in (self._groups, self._sequence, self._number):
            kept.pop(name, None)
        self._signatures.clear()
        made = Signature(
            "init_process_group" if default else "new_group",
            name,
            Kind.MAKING,
            members,
            place,
            default=default,
            generation=generation,
            timeout_s=timeout_s,
        )
        return self._log.begin(
            self._log.text(made), self._log.text(place), 1, threads=len(_live_threads), waits=waits
        )

    def uses_store(self, operation: str, key: str, kind: Kind, timeout_s: float | None) -> int:
        """Records that the rank waits for a key of a store, or sets it."""
        place, _ = self._places.find(sys._getframe(1))
        signature = Signature(operation, kind=kind, key=key, timeout_s=timeout_s)
        waits = kind is Kind.STORE
        threads = len(_live_threads)
        return self._log.begin(
            self._log.text(signature), self._log.text(place), 1, threads=threads, waits=waits
        )


@dataclass(frozen=True, slots=True)
class ObjectCall:
    """A running call of a function that makes several calls of the backend: which, and how far it is."""

    name: str
    frame: int
    instruction: int

    def continues(self, earlier: ObjectCall | None) -> bool:
        """Whether this is the same running function as ``earlier``, further on."""
        if earlier is None or (self.name, self.frame) != (earlier.name, earlier.frame):
            return False
        return self.instruction > earlier.instruction


class Places:
    """Finds the user's line above a call: the innermost frame that is neither torch's nor the harness's."""

    def __init__(self) -> None:
        self._internal: dict[CodeType, bool] = {}
        self._texts: dict[tuple[CodeType, int], str] = {}
        torch = sys.modules.get("torch")
        self._torch = (getattr(torch, "__file__", None) or "?").rpartition("/")[0] + "/"

    def find(self, frame: FrameType | None) -> tuple[str, ObjectCall | None]:
        """The place ("t.py:20 in test_x", "" where there is none), and the object collective around the call."""
        around: ObjectCall | None = None
        internal = self._internal
        while frame is not None:
            code = frame.f_code
            inside = internal.get(code)
            if inside is None:
                inside = internal[code] = self._is_internal(code)
            if not inside:
                return self._text(code, frame.f_lineno or 0), around
            if code.co_name in OBJECT_COLLECTIVES:
                around = ObjectCall(code.co_name, id(frame), frame.f_lasti)
            frame = frame.f_back
        return "", around

    def _is_internal(self, code: CodeType) -> bool:
        file = code.co_filename
        return file.startswith((self._torch, _HARNESS, "<")) or file.endswith(("contextlib.py", "threading.py"))

    def _text(self, code: CodeType, line: int) -> str:
        known = self._texts.get((code, line))
        if known is None:
            file = code.co_filename.rpartition("/")[2]
            known = self._texts[code, line] = f"{file}:{line} in {code.co_name}"
        return known


def _group_name(group: Any) -> str:
    try:
        return str(group.group_name)
    except RuntimeError:  # a group that was never registered under a name
        return "?"


def _is_default(group: Any) -> bool:
    try:
        return bool(group.group_desc == "default_pg")
    except (AttributeError, RuntimeError):  # a group of Python's without a description
        return False


def _backend_name(group: Any) -> str:
    try:
        return str(group.name())
    except (AttributeError, RuntimeError, NotImplementedError):  # a group without a backend
        return ""


def _timeout_of(group: Any) -> float | None:
    """After how many seconds the group's calls give up; None where its backend does not say."""
    try:
        device = group._device_types[0]
        return float(group._get_backend(device).options._timeout.total_seconds())
    except (AttributeError, IndexError, RuntimeError, TypeError):
        return None
