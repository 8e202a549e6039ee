"""What this process's environment says now: decoded, and read as settings, once while it stays as it is.

Decoding the environment takes longer than all other steps of a test on kept ranks, and from test to test it
is the same.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from harness.settings import Settings


class _Read(NamedTuple):
    """An environment, raw and decoded, and its settings and ``group_variables`` once somebody has asked."""

    raw: dict[Any, Any]
    decoded: dict[str, str]
    settings: Settings | None = None
    groups: frozenset[tuple[str, str]] | None = None


# What torch and the libraries behind its backends put before the names of their variables.
_OF_GROUPS = ("TORCH_", "NCCL_", "GLOO_", "UCC_")
# What was read last. A copy of the process reads the same, or notices that it is no longer so.
_last = _Read({}, {})


def environment() -> dict[str, str]:
    """The current environment; not to be changed."""
    return _current().decoded


def settings() -> Settings:
    """The settings that the current environment asks for; UsageError where they cannot be used."""
    global _last
    current = _current()
    if current.settings is not None:
        return current.settings
    read = Settings.from_environ(current.decoded)
    _last = current._replace(settings=read)
    return read


def group_variables() -> frozenset[tuple[str, str]]:
    """The variables that a process group goes by from the moment it is made."""
    global _last
    current = _current()
    if current.groups is not None:
        return current.groups
    read = frozenset(item for item in current.decoded.items() if item[0].startswith(_OF_GROUPS))
    _last = current._replace(groups=read)
    return read


def _current() -> _Read:
    global _last
    raw = os.environ._data  # type: ignore[attr-defined]  # what os.environ decodes at each access
    if _last.raw != raw:
        _last = _Read(dict(raw), dict(os.environ))
    return _last
