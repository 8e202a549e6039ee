"""``SharedCapacity``: what the hosts of a run offer to its one queue, and on which of them a test can run.

A test runs whole on a host that has room for its ranks, or spans hosts: then its process is on the
controller's host, and it takes its part of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.runner.scheduling.schedule import Amounts, Capacity, Place
from harness.runner.scheduling.unit import Demand


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """What one host offers. ``slots`` is how many ranks it takes before a test spans hosts.

    ``name`` is "" for the controller's. ``there`` is False as long as it cannot run whole tests.
    """

    name: str
    capacity: Capacity
    slots: int
    there: bool = False


@dataclass(frozen=True, slots=True)
class SharedCapacity:
    """The hosts, the controller's first. With ``spread`` every test with ranks spans hosts.

    ``groups`` are as in ``Capacity``, for all hosts together.
    """

    hosts: tuple[HostCapacity, ...]
    spread: bool = False
    groups: tuple[tuple[str, int], ...] = ()

    @property
    def slots(self) -> int:
        """The slots of all hosts together, also of those that are not there yet."""
        return sum(host.capacity.slots for host in self.hosts)

    @property
    def slot_columns(self) -> tuple[int, ...]:
        """Where in ``amounts`` the hosts' slots are."""
        return tuple(column * _COLUMNS for column in range(len(self.hosts)))

    @property
    def amounts(self) -> Amounts:
        """The capacity as a vector: of one host after the other, then of the groups."""
        of_hosts = (host.capacity.amounts if host.there else _NOTHING for host in self.hosts)
        return (*(n for each in of_hosts for n in each), *(limit for _, limit in self.groups))

    def alone(self, demand: Demand) -> bool:
        """True where the test must run alone on a host. One that spans hosts takes its part of each."""
        return demand.exclusive or (
            not self.spans(demand) and all(host.capacity.alone(demand) for host in self.hosts)
        )

    def width(self, demand: Demand) -> float:
        """How many slots the test takes."""
        return min(sum(place.need[column] for column in self.slot_columns) for place in self.places(demand))

    def spans(self, demand: Demand) -> bool:
        """Whether the test needs several hosts."""
        if demand.ranks < 2 or len(self.hosts) < 2:
            return False
        return self.spread or demand.hosts > 1 or not any(self._has_room(host, demand) for host in self.hosts)

    def _has_room(self, host: HostCapacity, demand: Demand) -> bool:
        """Whether a host has a slot for each rank, and an accelerator for each that can have one."""
        enough = sum(each.capacity.accelerators for each in self.hosts) >= demand.accelerators
        wanted = demand.accelerators if enough else 0  # else the test skips, or runs without
        return demand.ranks <= host.slots and wanted <= host.capacity.accelerators

    def places(self, demand: Demand) -> Sequence[Place]:
        """Where the test can run, and what it takes there; at least one."""
        if self.spans(demand):
            return (
                Place("", self._vector([_part(host, demand, self.hosts) for host in self.hosts], demand)),
            )
        fitting = [host for host in self.hosts if host.there and self._has_room(host, demand)]
        return [self._whole(host, demand) for host in fitting or self.hosts[:1]]

    def devices(self, demand: Demand) -> dict[str, int]:
        """How many accelerators a test that spans hosts takes of each, by name."""
        return {host.name: int(_part(host, demand, self.hosts)[_ACCELERATORS]) for host in self.hosts}

    def _whole(self, chosen: HostCapacity, demand: Demand) -> Place:
        needs = [chosen.capacity.need(demand) if host is chosen else _NOTHING for host in self.hosts]
        return Place(chosen.name, self._vector(needs, demand), self.hosts.index(chosen) * _COLUMNS)

    def _vector(self, of_hosts: Sequence[Amounts], demand: Demand) -> Amounts:
        groups = (int(name == demand.group) for name, _ in self.groups)
        return (*(number for each in of_hosts for number in each), *groups)

    def with_host(self, name: str, *, there: bool, accelerators: int | None = None) -> SharedCapacity:
        """With a host that can run whole tests now, with so many accelerators, or that cannot any more."""
        return replace(
            self,
            hosts=tuple(
                host if host.name != name else _changed(host, there, accelerators) for host in self.hosts
            ),
        )


# The columns of one host in ``amounts``: slots, accelerators, memory, ranks.
_COLUMNS = 4
_ACCELERATORS = 1
_NOTHING: Amounts = (0,) * _COLUMNS


def _changed(host: HostCapacity, there: bool, accelerators: int | None) -> HostCapacity:
    found = host.capacity.accelerators if accelerators is None else accelerators
    return replace(host, there=there, capacity=replace(host.capacity, accelerators=found))


def _part(host: HostCapacity, demand: Demand, hosts: Sequence[HostCapacity]) -> Amounts:
    """What a test that spans hosts takes of one: a part like that of its slots for ranks."""
    if not host.there:
        return _NOTHING
    part = host.slots / sum(each.slots for each in hosts if each.there)
    share = replace(
        demand,
        ranks=math.ceil(demand.ranks * part),
        cpu_slots=math.ceil(demand.cpu_slots * part),
        accelerators=math.ceil(demand.accelerators * part),
        memory_mb=math.ceil(demand.memory_mb * part),
    )
    return host.capacity.need(replace(share, group=""))
