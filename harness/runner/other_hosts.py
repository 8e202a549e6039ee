"""``OtherHosts``: the hosts of a run beside the controller's, which run whole tests of its one queue."""

from __future__ import annotations

import contextlib
import signal
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from harness.hosts.hosts import Host, to_text
from harness.hosts.lost_hosts import AGAIN_S, LostHosts
from harness.runner.messages import Load
from harness.runner.scheduling.device_pool import DevicePool
from harness.runner.scheduling.shared_capacity import SharedCapacity
from harness.runner.scheduling.unit import Unit
from harness.runner.selection import further_targets
from harness.runner.workers.events import HostReady, HostUnusable, ZygoteGone
from harness.runner.workers.workers import Workers
from harness.runner.workers.zygote_process import ZygoteLost, ZygoteProcess
from harness.settings import EnvVar
from harness.targets.device_set import DeviceSet

# Number of zygotes that may die on one host. More deaths have a cause that starting another does not cure.
MOST_LOSSES = 3


class OtherHosts:
    """Owns at most one zygote a host. Leaving the context ends them and their workers.

    ``capacity`` is what all hosts offer now: a host counts once its zygote has imported the modules, and
    until it is lost.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        capacity: SharedCapacity,
        environ: Mapping[str, str],
        sys_path: Sequence[str],
        path: Sequence[str],
        devices: DeviceSet,
        target: str,
    ) -> None:
        """``environ``, ``sys_path`` and ``path`` are those of the run's own zygote.

        ``devices`` are the accelerators of this host, ``target`` is the name of what has them.
        """
        self.capacity = capacity
        self.own = next((host.name for host in hosts if host.own), "")
        self._all = tuple(hosts)
        self._hosts = {host.name: host for host in hosts if not host.own}
        self._environ, self._sys_path, self._path = environ, sys_path, list(path)
        self._modules: Sequence[str] = ()
        self._zygotes: dict[str, ZygoteProcess] = {}
        self._unusable: set[str] = set()  # hosts that run no whole tests any more
        self._losses: Counter[str] = Counter()
        self._devices = {"": DevicePool(devices)}  # by host, "" is this one
        self._target = target
        self._known = LostHosts(environ[EnvVar.KEY_FILE])
        self._told: set[str] = set()  # the lost hosts of which the user knows
        self._due_s: dict[str, float] = {}  # when a lost host is asked again, by name

    def __enter__(self) -> OtherHosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        for name, zygote in self._zygotes.items():
            if name in self._told:  # it may still wait for a host that does not answer
                zygote.signal(signal.SIGKILL)
            zygote.close()
        self._zygotes.clear()

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the processes on this host that relay to the zygotes."""
        return tuple(zygote.pid for zygote in self._zygotes.values())

    def begin(self, modules: Sequence[str], workers: Workers) -> None:
        """Has every host start a zygote and import the modules, and waits for none."""
        self._modules = modules
        for name in self._hosts:
            self._start(name, workers)

    def _start(self, name: str, workers: Workers) -> None:
        zygote = ZygoteProcess(self._environ, self._sys_path, host=self._hosts[name])
        self._zygotes[name] = zygote
        workers.use(zygote, name)
        with contextlib.suppress(ZygoteLost):  # the end of its socket says so again
            zygote.send(Load(list(self._modules), self._path))

    def is_there(self, name: str) -> bool:
        """Whether a host can run whole tests now; always of this one, ""."""
        return any(host.there for host in self.capacity.hosts if host.name == name)

    def heed(
        self,
        event: HostReady | HostUnusable | ZygoteGone,
        workers: Workers,
        show_notice: Callable[[str], None],
    ) -> None:
        """Takes to heart that a host can run whole tests from now on, or cannot any more."""
        if isinstance(event, HostReady):
            self._unusable.discard(event.host)
            self._tell_return(event.host, show_notice)
            self._devices[event.host] = DevicePool(event.devices or DeviceSet())
            number = None if event.devices is None else len(event.devices.names)
            self.capacity = self.capacity.with_host(event.host, there=True, accelerators=number)
        elif isinstance(event, HostUnusable):
            self._unusable.add(event.host)
            show_notice(f"host {event.host} runs no whole tests: {event.reason}")
        else:
            self._gone(event, workers, show_notice)

    def _gone(self, event: ZygoteGone, workers: Workers, show_notice: Callable[[str], None]) -> None:
        """A host's zygote has died; it gets another one where the host itself is not lost."""
        self.capacity = self.capacity.with_host(event.host, there=False)
        self._losses[event.host] += 1
        self._zygotes.pop(event.host).close()
        if event.host_lost:
            self._unusable.add(event.host)
            self._due_s[event.host] = time.monotonic() + AGAIN_S
            self._tell_loss(event.host, event.reason, show_notice)
            return
        again = self._losses[event.host] <= MOST_LOSSES
        what = "starting another" if again else "no whole tests run there any more"
        show_notice(f"host {event.host}: the process that forks workers died: {event.reason}; {what}")
        if not again:
            self._unusable.add(event.host)
        else:
            self._start(event.host, workers)

    def look_for_lost(self, workers: Workers, show_notice: Callable[[str], None]) -> None:
        """Tells of hosts that processes of tests have lost or found again, and asks again those that are due.

        A relay's process asks, so that nobody here waits for the answer.
        """
        lost = self._known.all()
        for name, why in lost.items():
            self._tell_loss(name, why, show_notice)
        for name in self._told - lost.keys() - self._unusable:
            self._tell_return(name, show_notice)
        for name in [name for name, due_s in self._due_s.items() if time.monotonic() >= due_s]:
            del self._due_s[name]
            self._start(name, workers)

    def _tell_loss(self, name: str, why: str, show_notice: Callable[[str], None]) -> None:
        if name not in self._told:
            self._told.add(name)
            show_notice(f"{why}; tests run on the other hosts, and it is asked again every {AGAIN_S:g} s")

    def _tell_return(self, name: str, show_notice: Callable[[str], None]) -> None:
        if name in self._told:
            self._told.remove(name)
            show_notice(f"host {name} answers again, and tests run there again")

    def variables(self, units: Sequence[Unit], key: int, where: str) -> dict[str, str]:
        """What the worker of batch ``key`` has in its environment: only tests that span hosts know of others.

        The batch gets devices of its own, of the host ``where`` it runs or of all that its tests span, until
        ``give_back``.
        """
        spanning = [unit.demand for unit in units if self.capacity.spans(unit.demand)]
        if not spanning:
            most = max(unit.demand.accelerators for unit in units)
            return {EnvVar.HOSTS: "", **self._devices[where].environ(key, most)}
        found = {host.name or self.own: host.capacity.accelerators for host in self.capacity.hosts}
        hosts = [replace(host, accelerators=found.get(host.name, 0)) for host in self._all]
        wanted = max(spanning, key=lambda demand: demand.accelerators)
        if wanted.accelerators and any(host.accelerators for host in hosts):
            shares = self.capacity.devices(wanted)
            hosts = [self._with_devices(host, key, shares) for host in hosts if host.accelerators]
        own = {host.variable: host.visible for host in hosts if host.own and host.variable}
        return {EnvVar.HOSTS: to_text(hosts), **own}

    def _with_devices(self, host: Host, key: int, shares: Mapping[str, int]) -> Host:
        """A host as a batch sees it: with its share of the devices, and a slot for each."""
        name = "" if host.own else host.name
        pool = self._devices.get(name) or DevicePool(DeviceSet())
        for variable, visible in pool.environ(key, shares[name]).items():
            number = pool.held_by(key)
            return replace(host, slots=number, accelerators=number, variable=variable, visible=visible)
        return replace(host, slots=host.accelerators)

    def give_back(self, key: int) -> None:
        """The batch has ended; its devices are free."""
        for pool in self._devices.values():
            pool.give_back(key)

    def left_out(self, units: Iterable[Unit]) -> list[str]:
        """Lines that name the tests that take more accelerators than all hosts have."""
        there = sum(host.capacity.accelerators for host in self.capacity.hosts)
        return further_targets.left_out(units, there or None, f"{self._target} on all hosts")

    def awaited(self, units: Iterable[Unit]) -> bool:
        """Whether tests have to wait for hosts that may have the accelerators which they need."""
        most = max((unit.demand.accelerators for unit in units if unit.demand.ranks > 1), default=0)
        if most <= self.capacity.hosts[0].capacity.accelerators:
            return False
        return any(not host.there and host.name not in self._unusable for host in self.capacity.hosts)
