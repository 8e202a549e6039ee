"""The decorators that PyTorch's tests do not have: what a test asks of the scheduler, and asks for by name.

Each can stand on a test method and on a test class. Every wrong argument is a ValueError where it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from harness.requirements import argument_checks
from harness.requirements.attach import require
from harness.requirements.kinds import Backends, DeviceTypes
from harness.requirements.scheduling import CpuSlots, Exclusive, Memory, Timeout

Test = TypeVar("Test", bound=Callable[..., Any])


def timeout(seconds: float) -> Callable[[Test], Test]:
    """Gives the test that many seconds, in place of the run's default. A method's overrules its class's."""
    limit = argument_checks.check_seconds("seconds", seconds)
    return require(Timeout(seconds=limit, reason=f"takes up to {limit:g} s"))


def exclusive(test: Test) -> Test:
    """Has the machine to itself: no other test runs beside it."""
    return require(Exclusive(reason="needs the machine to itself"))(test)


def cpu_slots(n: int) -> Callable[[Test], Test]:
    """Keeps `n` processors busy, in place of one for each rank."""
    count = argument_checks.check_count("n", n, least=1)
    return require(CpuSlots(count=count, reason=f"keeps {count} processors busy"))


def memory_mb(n: int) -> Callable[[Test], Test]:
    """Needs `n` MiB at its peak, all ranks together. Skips on a machine that has less in all."""
    size = argument_checks.check_count("n", n, least=1)
    return require(Memory(mebibytes=size, reason=f"needs {size} MiB of memory"))


def requires_backend(*backends: str) -> Callable[[Test], Test]:
    """Needs one of these process group backends. Two decorators, one above the other, need both."""
    any_of = argument_checks.check_backends(backends)
    return require(
        Backends(any_of=any_of, reason=f"needs a torch build with the {' or '.join(any_of)} backend")
    )


def requires_device_type(*device_types: str) -> Callable[[Test], Test]:
    """Needs a device of one of these types ("cpu" always is). Two decorators need both."""
    any_of = argument_checks.check_device_types(device_types)
    return require(DeviceTypes(any_of=any_of, reason=f"needs a {' or '.join(any_of)} device"))
