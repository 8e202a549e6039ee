"""Checks the arguments of the decorators: which backends, device types, levels and numbers are accepted.

A wrong argument is a ValueError on the line of the decorator. torch is not imported for these checks; where
it is loaded already, backends and device types that a plug-in has registered are accepted too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

BACKENDS = ("gloo", "nccl", "ucc", "mpi", "xccl", "hccl", "fake", "threaded")
ACCELERATOR_BACKENDS = ("nccl", "xccl", "hccl")
DEVICE_TYPES = ("cpu", "cuda", "xpu", "hpu", "mps", "mtia", "xla", "meta", "privateuseone")
DEBUG_LEVELS = ("OFF", "INFO", "DETAIL")


def check_count(what: str, value: object, *, least: int = 0) -> int:
    """`value` as an int; ValueError where it is not a whole number or is below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} is {value!r}; give a whole number, {least} or more")
    return value


def check_seconds(what: str, value: object) -> float:
    """`value` as a float; ValueError where it is not a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{what} is {value!r}; give a number of seconds above 0")
    return float(value)


def check_reason(what: str, value: object) -> str:
    """`value` itself; ValueError where it is not a string (the test, say, in a use without a reason)."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {value!r}; give the reason as a string")
    return value


def check_version(what: str, value: object) -> tuple[int, ...]:
    """`value` as a tuple; ValueError where it is not a non-empty sequence of whole numbers."""
    if not isinstance(value, tuple | list) or not value:
        raise ValueError(f"{what} is {value!r}; give the version as a tuple, as (2, 27)")
    return tuple(check_count(f"a part of {what}", part) for part in value)


def listed(value: object) -> tuple[Any, ...]:
    """`value` as a tuple: a collection's elements, or a single element for a string or any other object."""
    return (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)


def check_one_of(what: str, value: object, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices; ValueError else."""
    if value not in choices:
        raise ValueError(f"{what} is {value!r}: write one of {', '.join(map(repr, choices))}")
    return str(value)


def check_backends(names: Iterable[str]) -> tuple[str, ...]:
    """The names in lower case; ValueError where there is none or one that torch does not know."""
    return _check_names("backend", names, (*BACKENDS, *_registered_backends()))


def check_device_types(names: Iterable[str]) -> tuple[str, ...]:
    """The names in lower case; ValueError where there is none or one that torch does not know."""
    return _check_names("device type", names, (*DEVICE_TYPES, *_registered_device_types()))


def check_debug_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """The levels in upper case, in the given order; ValueError where there is none or one is unknown."""
    given = listed(levels)
    found = tuple(
        level.upper() for level in given if isinstance(level, str) and level.upper() in DEBUG_LEVELS
    )
    if not found or len(found) != len(given):
        raise ValueError(
            f"debug levels are {levels!r}; give a non-empty list out of {', '.join(DEBUG_LEVELS)}"
        )
    return found


def _check_names(what: str, names: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    given = listed(names)
    if not given:
        raise ValueError(f"no {what} given; name at least one of {', '.join(known)}")
    for name in given:
        if not isinstance(name, str) or name.lower() not in known:
            raise ValueError(
                f"unknown {what} {name!r}; give one of {', '.join(known)}, "
                f"or import the module that registers it first"
            )
    return tuple(name.lower() for name in given)


def _registered_backends() -> tuple[str, ...]:
    backend_class = getattr(sys.modules.get("torch.distributed"), "Backend", None)
    return tuple(getattr(backend_class, "backend_list", ()))


def _registered_device_types() -> tuple[str, ...]:
    bindings = getattr(sys.modules.get("torch"), "_C", None)
    name = getattr(bindings, "_get_privateuse1_backend_name", None)
    return () if name is None else (name(),)
