"""The targets that need no plugin, by backend and device type: gloo on the CPU, as the suites know it."""

from __future__ import annotations

import functools

from harness.targets.target import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    MESSAGES,
    MOVING,
    REDUCING,
    Capability,
    Target,
    operations,
)

# The target where nothing is asked for.
DEFAULT = ("gloo", "cpu")

_GLOO_REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")
# send and recv move the bytes of any tensor.
_OTHER_BYTES = frozenset({"int16", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"})
_NOT_OF_GLOO = frozenset(
    {
        Capability.SPLIT_GROUP,
        Capability.COALESCING,
        Capability.UNEVEN_LISTS,
        Capability.STACKED_OUTPUTS,
    }
)


def backends() -> tuple[str, ...]:
    """The names of the backends that need no plugin."""
    return ("gloo",)


def find(backend: str | None, device_type: str | None) -> Target | None:
    """The target of this backend, this device type, or both; the default for neither, None where none is."""
    usual = gloo()
    agrees = (backend or usual.backend, device_type or usual.device_type) == DEFAULT
    return usual if agrees else None


@functools.cache
def gloo() -> Target:
    """gloo on the CPU, in the release of torch that runs: all_to_all of lists is new in torch 2.12."""
    from harness.releases import torch_at_least

    every = FLOATS | INTEGERS | BOOL | COMPLEX
    declared = {
        **operations((*MOVING, *REDUCING), every, _GLOO_REDUCTIONS),
        **operations(("gather",), every - COMPLEX),
        **operations(MESSAGES, every | _OTHER_BYTES),
    }
    if not torch_at_least("2.12"):
        del declared["all_to_all"]
    return Target("gloo", "cpu", declared, frozenset(Capability) - _NOT_OF_GLOO)
