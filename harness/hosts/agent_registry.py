"""``AgentRegistry``: the agents of a run, at its controller: lets them in, compares versions, says goodbye.

It keeps a connection to each agent open for the life of the run. An agent ends, with all that it has started,
as soon as that connection does, however the controller ends.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Mapping, Sequence

from harness.errors import LaunchError, ProtocolError
from harness.hosts.connection import Connection, HostGone, listen
from harness.hosts.handshake import Purpose
from harness.hosts.hosts import Host
from harness.hosts.listener import Listener
from harness.hosts.messages import Arrived, Goodbye, TurnedAway, Welcome
from harness.hosts.versions import differences

# Seconds for an agent that has proven the key to say who it is.
_SAYS_S = 30.0


class AgentRegistry:
    """The agents of a run, from their arrival to the run's end; a context manager.

    ``versions`` are those of this host. ``say`` is told of each agent that is turned away.
    """

    def __init__(
        self, address: str, port: int, key: bytes, versions: Mapping[str, str], say: Callable[[str], object]
    ) -> None:
        """LaunchError where the address cannot be listened on."""
        self._versions = versions
        self._say = say
        self._agents: dict[Host, Connection] = {}
        self._turned_away: list[str] = []
        try:
            listener = listen(address, port)
        except OSError as error:
            raise LaunchError(
                f"cannot listen on {address}:{port} for the other hosts: {error.strerror}"
            ) from None
        self.port: int = listener.getsockname()[1]
        self._listener = Listener(listener, key, Purpose.ARRIVAL)

    def __enter__(self) -> AgentRegistry:
        return self

    def __exit__(self, *error: object) -> None:
        self.close(done=error[0] is None)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts whose agents are there, in the order of their names."""
        return tuple(sorted(self._agents, key=lambda host: host.name))

    def wait_for(
        self, count: int, seconds: float, going: Callable[[], bool] = lambda: True
    ) -> Sequence[Host]:
        """Waits until ``count`` agents are there; LaunchError where one differs, or does not come in time.

        ``going`` is asked again and again whether it is worth while to wait on.
        """
        until = time.monotonic() + seconds
        while len(self._agents) < count:
            if self._turned_away:
                raise LaunchError(self._turned_away[0])
            if time.monotonic() > until or not going():
                raise LaunchError(self._who_came(count, seconds))
            self._step(min(1.0, max(0.0, until - time.monotonic())))
        return self.hosts

    def _who_came(self, count: int, seconds: float) -> str:
        names = ", ".join(host.name for host in self.hosts)
        came = f"{len(self._agents)} of {count} hosts came" + (f" ({names})" if names else "")
        return f"{came} within {seconds:g} s: is python -m harness.agent started on each, with the same key?"

    def _step(self, wait_s: float) -> None:
        poll = select.poll()
        for fd in self._listener.descriptors():
            poll.register(fd, select.POLLIN)
        pending_s = self._listener.wait_s()
        poll.poll(1000 * (wait_s if pending_s is None else min(wait_s, pending_s)))
        for connection, address in self._listener.enter():
            try:
                self._let_in(connection, address)
            except (HostGone, ProtocolError) as error:
                connection.close()
                self._say(f"the agent at {address} did not come in: {error}")
        while self._listener.refused:
            self._say(self._listener.refused.pop(0))

    def _let_in(self, connection: Connection, address: str) -> None:
        message = connection.receive_one(_SAYS_S)
        if not isinstance(message, Arrived):
            raise ProtocolError(f"expected Arrived, got {message!r}")
        differs = differences(self._versions, message.versions)
        if differs:
            reason = f"host {message.host} ({address}) cannot take part: {'; '.join(differs)}"
            with contextlib.suppress(HostGone):
                connection.send(TurnedAway(reason))
            connection.close()
            self._turned_away.append(reason)
            return
        connection.send(Welcome())
        name = self._free_name(message.host)
        host = Host(
            name,
            message.address,
            message.port,
            message.store,
            message.slots,
            message.processors,
            message.memory_mb,
            message.accelerators,
            message.own,
        )
        self._agents[host] = connection

    def _free_name(self, name: str) -> str:
        """The name, with a number where another agent has it: there may be several on one host."""
        taken = {host.name for host in self._agents}
        numbered = (f"{name}#{number}" for number in range(2, len(taken) + 3))
        return name if name not in taken else next(each for each in numbered if each not in taken)

    def close(self, *, done: bool) -> None:
        """Ends the agents; ``done``: the run went as it should, and they end without an error."""
        self._listener.close()
        for connection in self._agents.values():
            if done:
                with contextlib.suppress(HostGone):
                    connection.send(Goodbye())
            connection.close()
        self._agents.clear()
