"""``OtherCalls``: records what is no call on a group: making one, stores, layouts, C++, remote calls."""

from __future__ import annotations

import functools

from harness.communication.analysis.difference_text import MODULE
from harness.communication.analysis.rpc_workers import JOINING
from harness.communication.call_log import CallLog
from harness.communication.record.known_groups import KnownGroups
from harness.communication.record.python_threads import count as python_threads
from harness.communication.record.signatures import store_text
from harness.communication.record.user_lines import Places
from harness.communication_call import Kind, Signature


class OtherCalls:
    """Records one rank's calls that are on no group."""

    def __init__(self, log: CallLog, known: KnownGroups) -> None:
        self.log = log
        self._places = Places(log)
        self._known = known
        self._layouts: dict[tuple[str, tuple[int, ...]], int] = {}  # placements given on meshes, by members
        self._joined = 0  # how often the rank has become a worker of RPC in this test

    def forget_groups(self) -> None:
        """Forgets all groups and meshes, because there will be new ones."""
        self._known.forget()
        self._layouts.clear()

    def forget_calls(self) -> None:
        """Forgets the calls of the test before."""
        self._joined = 0

    def lays_out(
        self, operation: str, members: tuple[int, ...], placements: str, *, by_line: bool = False
    ) -> int:
        """Records that the rank gives a distributed tensor placements on a mesh of these ranks.

        ``by_line``: ranks need not make these calls equally often, so that only those of one line belong
        together, in their order there.
        """
        place = self._places.find(2)
        name = f"the mesh at {self._places.last}" if by_line else "the mesh"
        sequence = self._layouts[name, members] = self._layouts.get((name, members), 0) + 1
        signature = Signature(operation, name, Kind.LAYOUT, members, tensors=placements, agreed=placements)
        return self.log.begin(self.log.text(signature), place, sequence, sequence, python_threads())

    def has_parameters(self, members: tuple[int, ...], parameters: str, *, default: bool) -> int:
        """Records the ``parameters`` that DDP gets, which must be the same on these ranks.

        ``default``: they are those of the default group.
        """
        place, name = self._places.find(2), "the group"
        sequence = self._layouts[name, members] = self._layouts.get((name, members), 0) + 1
        made = Signature(
            MODULE, name, Kind.LAYOUT, members, default=default, tensors=parameters, agreed=parameters
        )
        return self.log.begin(self.log.text(made), place, sequence, sequence, python_threads())

    def makes_group(
        self, name: str, members: tuple[int, ...], *, default: bool, waits: bool, timeout_s: float | None
    ) -> int:
        """Records that the rank begins to make a group; ``waits``: as a member, for the others."""
        place = self._places.find(2)
        line = self._places.last.partition(" in ")[0]
        made = self._known.make(name, members, line, default=default, timeout_s=timeout_s)
        return self.log.begin(self.log.text(made), place, 1, 1, python_threads(), waits=waits)

    def uses_store(
        self,
        operation: str,
        key: str,
        kind: Kind,
        timeout_s: float | None,
        prefix: str = "",
        *,
        workers: int = 0,
        bounded: bool = False,
    ) -> int:
        """Records that the rank waits for a key of a store, or sets it.

        ``prefix`` is what the store puts before it. ``workers``: the rank waits for as many calls like this.
        ``bounded``: for somebody who may be no rank of the test.
        """
        told = store_text(operation, prefix, kind, key, timeout_s, workers)
        token = self._begins(told, waits=kind is Kind.STORE)
        if bounded:
            self.log.wait(token, True)
        return token

    def meets_workers(self, operation: str, worker: str, workers: int, timeout_s: float | None) -> int:
        """Records that the rank, which is a worker of RPC, joins or leaves: with so many, or, if 0, alone.

        The call's number is the times that the rank has joined, this one included.
        """
        made = Signature(operation, kind=Kind.WORKERS, key=worker, timeout_s=timeout_s, workers=workers)
        return self._begins(made, waits=workers > 0, number=self._joined + (operation == JOINING))

    def asks_worker(self, operation: str, worker: str, *, waits: bool) -> int:
        """Records that the rank asks a worker of RPC, and ``waits`` for the answer."""
        return self._begins(Signature(operation, kind=Kind.ANSWER, key=worker), waits=waits)

    def _begins(self, made: str | Signature, *, waits: bool, number: int = 1) -> int:
        place = self._places.find(3)
        return self.log.begin(self.log.text(made), place, 1, number, python_threads(), waits=waits)

    def cpp_begins(self, name: str) -> int:
        """Records that a function begins that waits in C++ for the calls it starts: a backward pass, say."""
        return self._begins(_signature_in_cpp(name), waits=True)

    def has_agent(self, joining: int) -> None:
        """Notes for the rest of the test that the rank's agent of RPC is up; -1: that it is not, any more."""
        self._joined += joining >= 0
        self.log.keep(joining)

    def ended(self, token: int, *, raised: bool = False) -> None:
        """Records that a call has ended; ``raised``: by an exception."""
        if raised:
            self.log.raised(token)
        else:
            self.log.end(token)


@functools.lru_cache(maxsize=256)
def _signature_in_cpp(name: str) -> Signature:
    return Signature(name, kind=Kind.IN_CPP)
