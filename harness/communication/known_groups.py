"""``KnownGroups``: the process groups of one rank, told apart from earlier ones of the same name.

For each it keeps what its calls need: members, where it was made, how many calls it has had.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from harness.communication.user_lines import ObjectCall
from harness.communication_call import UNNAMED, Kind, Signature


class KnownGroup:
    """What is known of a process group, and how many calls it has had."""

    __slots__ = ("number", "object_call", "of", "sequence", "signature", "signatures")

    def __init__(self, of: weakref.ref[Any], signature: Signature, signatures: dict[Hashable, int]) -> None:
        self.of = of
        self.signature = signature  # the group's fields alone
        self.sequence = 0
        self.number = 0
        self.object_call: ObjectCall | None = None  # around the last call
        self.signatures = signatures  # of its calls, by what they are given


class KnownGroups:
    """A rank's groups; ``members_of`` gives the global ranks of a process group, () if unknown."""

    def __init__(self, members_of: Callable[[Any], tuple[int, ...]]) -> None:
        self._members_of = members_of
        self.by_object: dict[int, KnownGroup] = {}  # by id of the group's object
        self._by_name: dict[str, KnownGroup] = {}
        self._made: dict[str, tuple[int, str]] = {}  # group's name -> its generation, and where it was made
        self._made_there: Counter[tuple[str, tuple[int, ...]]] = Counter()  # groups by line and members
        # What is known of calls, by the signature of their group: the next test's groups are like this one's.
        self._signatures: dict[Signature, dict[Hashable, int]] = {}

    def forget(self) -> None:
        """Forgets all groups, because there will be new ones; not the signatures of their calls."""
        for kept in (self.by_object, self._by_name, self._made, self._made_there):
            kept.clear()

    def forget_signatures(self) -> None:
        """Forgets the signatures of calls; the groups and their numbers stay."""
        for signatures in self._signatures.values():
            signatures.clear()

    def find(self, group: Any) -> KnownGroup:
        """Looks up a group by its name, because its object is not known or is that of another one."""
        name = _group_name(group)
        known = self._by_name.get(name)
        if known is None or known.of() is not group or not known.signature.members:
            signature = self._signature_of_group(group, name)
            fresh = KnownGroup(weakref.ref(group), signature, self._signatures.setdefault(signature, {}))
            if known is not None and known.signature == fresh.signature:  # another object for the same group
                fresh.sequence, fresh.number = known.sequence, known.number
            known = self._by_name[name] = fresh
        if known.signature.members:  # else it is being made, and torch does not know it yet
            self.by_object[id(group)] = known
        return known

    def make(
        self, name: str, members: tuple[int, ...], line: str, *, default: bool, timeout_s: float | None
    ) -> Signature:
        """Notes that a group is made on a line of the test; returns the signature of its making."""
        self._made_there[line, members] += 1
        nth = self._made_there[line, members]
        if line and nth > 1 and not default:
            line += f" (number {nth})"
        known = self._by_name.get(name)
        earlier = -1 if known is None else known.signature.generation
        generation = max(earlier, self._made.get(name, (-1, ""))[0]) + 1
        self._made[name] = (generation, line)
        self._by_name.pop(name, None)
        self.by_object.clear()
        return Signature(
            "init_process_group" if default else "new_group",
            name,
            Kind.MAKING,
            members,
            "" if default else line,
            default=default,
            generation=generation,
            timeout_s=timeout_s,
        )

    def _signature_of_group(self, group: Any, name: str) -> Signature:
        generation, line = self._made.get(name, (0, ""))
        default = _is_default(group)
        return Signature(
            "?",
            name,
            members=self._members_of(group),
            made_at="" if default else line,
            default=default,
            generation=generation,
            backend=_backend_name(group),
            timeout_s=_timeout_of(group),
        )


def _group_name(group: Any) -> str:
    try:
        return str(group.group_name)
    except RuntimeError:  # a group that was never registered under a name
        return UNNAMED


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
