"""``KnownGroups``: the process groups of one rank, told apart from earlier ones of the same name.

For each it keeps what its calls need: members, where it was made, how many calls it has had.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from harness.communication.record.signatures import group_text
from harness.communication.record.user_lines import ObjectCall
from harness.communication_call import UNNAMED, Kind

# What torch calls the default group, and one without a description.
_DEFAULT, _UNDEFINED = "default_pg", "undefined"


class KnownGroup:
    """What is known of a process group, and how many calls it has had: by the backend's count, ``sequence``.

    Less ``parts`` that is the user's count: an object collective is several calls of the backend. The last
    such call was ``object_call``, a part of which was the backend's call number ``part_at``.
    """

    __slots__ = (
        *("default", "generation", "members", "object_call", "of", "part_at", "parts", "sequence"),
        *("text", "told"),
    )

    def __init__(
        self,
        of: weakref.ref[Any],
        members: tuple[int, ...],
        told: str,
        text: int,
        generation: int,
        *,
        default: bool,
    ) -> None:
        self.of = of
        self.members = members  # their global ranks; () where torch does not know them yet
        self.default = default
        self.told = told  # the group's fields, of ``group_text``
        self.text = text  # the number of ``told`` in the rank's log
        self.generation = generation
        self.sequence = 0
        self.parts = 0
        self.object_call: ObjectCall | None = None
        self.part_at = 0


class KnownGroups:
    """A rank's groups; ``members_of`` gives the global ranks of a process group, () if unknown.

    ``write`` puts a text into the rank's log and returns its number there.
    """

    def __init__(self, members_of: Callable[[Any], tuple[int, ...]], write: Callable[[str], int]) -> None:
        self._members_of = members_of
        self.write = write
        self.by_object: dict[int, KnownGroup] = {}  # by id of the group's object
        self._by_name: dict[str, KnownGroup] = {}
        self._made: dict[str, tuple[int, str]] = {}  # group's name -> its generation, and where it was made
        self._made_there: dict[tuple[str, tuple[int, ...]], int] = {}  # how many, by line and members

    def forget(self) -> None:
        """Forgets all groups, because there will be new ones."""
        for kept in (self.by_object, self._by_name, self._made, self._made_there):
            kept.clear()

    def write_again(self) -> None:
        """Writes the texts of all groups again, because the log has forgotten them."""
        for known in (*self._by_name.values(), *self.by_object.values()):
            known.text = self.write(known.told)

    def find(self, group: Any) -> KnownGroup:
        """Looks up a group by its name, because its object is not known or is that of another one."""
        name = _group_name(group)
        known = self._by_name.get(name)
        if known is None or known.of() is not group or not known.members:
            fresh = self._fresh(group, name)
            if known is not None and known.told == fresh.told:  # another object for the same group
                fresh.sequence, fresh.parts = known.sequence, known.parts
            known = self._by_name[name] = fresh
        if known.members:  # else it is being made, and torch does not know it yet
            self.by_object[id(group)] = known
        return known

    def _ref(self, group: Any) -> weakref.ref[Any]:
        """A reference to a group; its address, which others may get, stands for nothing when it ends."""
        address, known = id(group), self.by_object
        return weakref.ref(group, lambda _: known.pop(address, None))

    def make(
        self, name: str, members: tuple[int, ...], line: str, *, default: bool, timeout_s: float | None
    ) -> str:
        """Notes that a group is made on a line of the test; returns the signature of its making, as JSON."""
        nth = self._made_there[line, members] = self._made_there.get((line, members), 0) + 1
        if line and nth > 1 and not default:
            line += f" (number {nth})"
        known = self._by_name.get(name)
        earlier = -1 if known is None else known.generation
        generation = max(earlier, self._made.get(name, (-1, ""))[0]) + 1
        self._made[name] = (generation, line)
        self._by_name.pop(name, None)
        self.by_object.clear()
        return group_text(
            name,
            members,
            made_at="" if default else line,
            default=default,
            generation=generation,
            timeout_s=timeout_s,
            operation="init_process_group" if default else "new_group",
            kind=Kind.MAKING,
        )

    def _fresh(self, group: Any, name: str) -> KnownGroup:
        generation, line = self._made.get(name, (0, ""))
        described = _described(group)
        default = described == _DEFAULT
        members = self._members_of(group)
        told = group_text(
            name,
            members,
            made_at="" if default else line,
            default=default,
            generation=generation,
            timeout_s=_timeout_of(group),
            backend=_backend_name(group),
            description="" if described in (_DEFAULT, _UNDEFINED) else described,
        )
        return KnownGroup(self._ref(group), members, told, self.write(told), generation, default=default)


def _group_name(group: Any) -> str:
    try:
        return str(group.group_name)
    except RuntimeError:  # a group that was never registered under a name
        return UNNAMED


def _described(group: Any) -> str:
    """What torch or the user calls the group, as ``mesh_tp``."""
    try:
        return str(group.group_desc)
    except (AttributeError, RuntimeError):  # a group of Python's without a description
        return _UNDEFINED


def _backend_name(group: Any) -> str:
    try:
        return str(group.name())
    except (
        AttributeError,
        RuntimeError,
        TypeError,
    ):  # no backend, or a group of Python's whose name is a text
        return ""


def _timeout_of(group: Any) -> float | None:
    """After how many seconds the group's calls give up; None where its backend does not say."""
    try:
        device = group._device_types[0]
        return float(group._get_backend(device).options._timeout.total_seconds())
    except (AttributeError, IndexError, RuntimeError, TypeError):
        return None
