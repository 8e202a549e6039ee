"""Caches this process's environment, decoded and as ``Settings``, until it changes.

Decoding it takes longer than all other steps of a test on pooled ranks, and it rarely changes between tests.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from harness.settings import Settings


class _Read(NamedTuple):
    """An environment, raw and decoded, with its settings and ``group_variables`` once they were requested."""

    raw: dict[Any, Any]
    decoded: dict[str, str]
    settings: Settings | None = None
    groups: frozenset[tuple[str, str]] | None = None


# The prefixes of the variables of torch and of the libraries behind its backends.
_OF_GROUPS = ("TORCH_", "NCCL_", "GLOO_", "UCC_")
# The cached environment. A fork of this process may use it too, since each access compares it again.
_last = _Read({}, {})


def environment() -> dict[str, str]:
    """The current environment; the caller must not change it."""
    return _current().decoded


def settings() -> Settings:
    """The settings of the current environment; UsageError where they cannot be used."""
    global _last
    current = _current()
    if current.settings is not None:
        return current.settings
    read = Settings.from_environ(current.decoded)
    _last = current._replace(settings=read)
    return read


def group_variables() -> frozenset[tuple[str, str]]:
    """The variables that determine how a process group behaves, which reads them when it is made."""
    global _last
    current = _current()
    if current.groups is not None:
        return current.groups
    read = frozenset(item for item in current.decoded.items() if item[0].startswith(_OF_GROUPS))
    _last = current._replace(groups=read)
    return read


def _current() -> _Read:
    global _last
    raw = os.environ._data  # type: ignore[attr-defined]  # os.environ itself decodes at each access
    if _last.raw != raw:
        _last = _Read(dict(raw), dict(os.environ))
    return _last
