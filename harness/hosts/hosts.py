"""``Host``: a host of a run as processes of tests know it, and the variable that tells them of all hosts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UsageError
from harness.settings import EnvVar


@dataclass(frozen=True, slots=True)
class Host:
    """A host: its name, where its agent takes sessions, the port of its store, and what it has for tests.

    ``slots`` is how many ranks it takes before a test spans another host. ``own`` marks the controller's.
    Of its accelerators a test's ranks see those that the environment variable ``variable`` says by the value
    ``visible``; all where it is "".
    """

    name: str
    address: str
    port: int
    store: int
    slots: int
    processors: int = 1
    memory_mb: int | None = None
    accelerators: int = 0
    own: bool = False
    variable: str = ""
    visible: str = ""

    @property
    def where(self) -> str:
        """The agent's address and port, for messages."""
        return f"{self.address}:{self.port}"


def to_text(hosts: Sequence[Host]) -> str:
    """The value of ``HARNESS_HOSTS`` for these hosts."""
    return json.dumps([dataclasses.asdict(host) for host in hosts])


def from_text(text: str) -> tuple[Host, ...]:
    """The hosts of a value of ``HARNESS_HOSTS``; UsageError where it is none."""
    try:
        hosts = tuple(Host(**value) for value in json.loads(text))
    except (ValueError, TypeError):
        hosts = ()
    if not hosts or len({host.name for host in hosts}) < len(hosts):
        raise UsageError(f"{EnvVar.HOSTS} is not what --hosts sets: start the tests with --hosts")
    return hosts
