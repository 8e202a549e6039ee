"""The contenders by name: one small class each. A new one is added here."""

from __future__ import annotations

import importlib

from tools.bench.contenders.base import Contender

# name -> module and class: a contender's module is imported only in the process that runs it.
_HOMES = {
    "bare": ("tools.bench.contenders.bare", "Bare"),
    "forkserver": ("tools.bench.contenders.ours", "ForkServer"),
    "spawn": ("tools.bench.contenders.ours", "Spawn"),
    "upstream": ("tools.bench.contenders.upstream", "Upstream"),
}
TITLES = {
    "bare": "bare program",
    "forkserver": "fork server",
    "spawn": "spawn",
    "upstream": "upstream",
}
assert _HOMES.keys() == TITLES.keys()


def make(name: str) -> Contender:
    """The contender of that name, in the process that is to run it."""
    module, attribute = _HOMES[name]
    contender = getattr(importlib.import_module(module), attribute)()
    assert isinstance(contender, Contender)
    return contender
