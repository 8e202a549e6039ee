"""What this process's environment says now: decoded, and read as settings, once while it stays as it is.

Decoding the environment takes longer than all other steps of a test on kept ranks, and from test to test it
is the same.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from harness.settings import Settings


class _Read(NamedTuple):
    """An environment, raw and decoded, and its settings once somebody has asked for them."""

    raw: dict[Any, Any]
    decoded: dict[str, str]
    settings: Settings | None = None


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


def _current() -> _Read:
    global _last
    raw = os.environ._data  # type: ignore[attr-defined]  # what os.environ decodes at each access
    if _last.raw != raw:
        _last = _Read(dict(raw), dict(os.environ))
    return _last
