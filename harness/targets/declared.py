"""Skips what the target does not declare: by ``needs``, a decorator, or ``require``, a call.

Such a skip is *undeclared*: its reason begins with ``UNDECLARED``, and so reports tell it from others.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.requirements.attach import require as require_of_test
from harness.requirements.kinds import Requirement
from harness.requirements.machine import MachineFacts, RunFacts
from harness.targets.current import current
from harness.targets.target import Capability

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# The beginning of the reason of each skip for what the target does not declare.
UNDECLARED = "not declared by target"

Test = TypeVar("Test", bound=Callable[..., Any])


def require(
    *capabilities: Capability,
    operation: str | None = None,
    reduction: str | None = None,
    dtype: str | None = None,
    backend: str | None = None,
    device_type: str | None = None,
) -> None:
    """Skips the running test where the target does not declare one of these (``Target.undeclared``).

    To be called alike on all ranks. ``unittest.SkipTest`` begins with ``UNDECLARED``.
    """
    reason = reason_undeclared(
        *capabilities,
        operation=operation,
        reduction=reduction,
        dtype=dtype,
        backend=backend,
        device_type=device_type,
    )
    if reason is not None:
        raise unittest.SkipTest(reason)


def needs(
    *capabilities: Capability,
    operation: str | None = None,
    reduction: str | None = None,
    dtype: str | None = None,
    backend: str | None = None,
    device_type: str | None = None,
) -> Callable[[Test], Test]:
    """A decorator: the test, or each test of the class, needs these of the target; arguments as ``require``.

    The test is skipped before ranks are started.
    """
    wanted = {
        "operation": operation,
        "reduction": reduction,
        "dtype": dtype,
        "backend": backend,
        "device_type": device_type,
    }
    given = tuple((name, value) for name, value in wanted.items() if value is not None)
    return require_of_test(
        Declared(reason="needs a target that declares it", capabilities=capabilities, wanted=given)
    )


def is_undeclared(reason: str) -> bool:
    """Whether the reason of a skip is that the target does not declare what the test needs."""
    return reason.startswith(UNDECLARED)


def reason_undeclared(*capabilities: Capability, **wanted: str | None) -> str | None:
    """The reason of the skip that ``require`` raises; None where the target declares all of it."""
    target = current()
    what = target.undeclared(*capabilities, **wanted)
    return f"{UNDECLARED} {target}: {what}" if what else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared(Requirement):
    """The test needs the target to declare these; ``wanted`` are named arguments of ``Target.undeclared``."""

    capabilities: tuple[Capability, ...] = ()
    wanted: tuple[tuple[str, str], ...] = ()

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        return reason_undeclared(*self.capabilities, **dict(self.wanted))
