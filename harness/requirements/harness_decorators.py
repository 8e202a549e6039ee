"""The decorators that PyTorch does not have: timeout, exclusive, cpu_slots, memory_mb, requires_backend, ...

Each can decorate a test method or a test class. A wrong argument is a ValueError where the decorator is
written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from harness.requirements import argument_checks
from harness.requirements.attach import require
from harness.requirements.kinds import Backends, DeviceTypes, Hosts
from harness.requirements.scheduling import CommunicationCheck, CpuSlots, Exclusive, Memory, Timeout
from harness.settings import COMM_CHECKS

Test = TypeVar("Test", bound=Callable[..., Any])


def timeout(seconds: float) -> Callable[[Test], Test]:
    """Gives the test a time limit in place of the run's default. A method's limit overrides its class's."""
    limit = argument_checks.check_seconds("seconds", seconds)
    return require(Timeout(seconds=limit, reason=f"takes up to {limit:g} s"))


def communication_check(level: str) -> Callable[[Test], Test]:
    """Takes what is wrong with the ranks' communication as "error" or as "warn", or with "off" ignores it.

    For a test that means it: it gives ranks different arguments, loses a message, or writes to a tensor that
    is under way. "values" does what "warn" does, and takes wrong results of collectives and messages for
    errors. Overrides ``HARNESS_COMM_CHECK``. A method's level overrides its class's.
    """
    chosen = argument_checks.check_one_of("level", level, COMM_CHECKS)
    return require(CommunicationCheck(level=chosen, reason=f"takes communication faults as {chosen!r}"))


def exclusive(test: Test) -> Test:
    """Runs the test alone: no other test runs on the machine at the same time."""
    return require(Exclusive(reason="needs the machine to itself"))(test)


def cpu_slots(n: int) -> Callable[[Test], Test]:
    """Reserves `n` processors for the test, in place of the number that follows from its ranks."""
    count = argument_checks.check_count("n", n, least=1)
    return require(CpuSlots(count=count, reason=f"keeps {count} processors busy"))


def memory_mb(n: int) -> Callable[[Test], Test]:
    """The test needs `n` MiB at its peak, all ranks together. It skips on a machine with less memory."""
    size = argument_checks.check_count("n", n, least=1)
    return require(Memory(mebibytes=size, reason=f"needs {size} MiB of memory"))


def requires_backend(*backends: str) -> Callable[[Test], Test]:
    """The test needs one of these process group backends.

    Two such decorators on one test must both be met.
    """
    any_of = argument_checks.check_backends(backends)
    return require(
        Backends(any_of=any_of, reason=f"needs a torch build with the {' or '.join(any_of)} backend")
    )


def requires_device_type(*device_types: str) -> Callable[[Test], Test]:
    """The test needs a device of one of these types; "cpu" is always there.

    Two such decorators on one test must both be met.
    """
    any_of = argument_checks.check_device_types(device_types)
    return require(DeviceTypes(any_of=any_of, reason=f"needs a {' or '.join(any_of)} device"))


def requires_hosts(n: int) -> Callable[[Test], Test]:
    """The test's ranks are on `n` hosts or more, whatever the placement. It skips in a run with fewer.

    Its ranks have to be fresh or pooled processes.
    """
    count = argument_checks.check_count("n", n, least=1)
    return require(Hosts(count=count, reason=f"needs {count} hosts"))
