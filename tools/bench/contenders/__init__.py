"""Lists the contenders by name, each with its class and its title in tables. New ones are added here."""

from __future__ import annotations

import importlib

from tools.bench.contenders.base import Contender

# The module and class of each contender. The module is imported only in the process that runs the contender.
_HOMES = {
    "bare": ("tools.bench.contenders.bare", "Bare"),
    "forkserver": ("tools.bench.contenders.ours", "ForkServer"),
    "spawn": ("tools.bench.contenders.ours", "Spawn"),
    "upstream": ("tools.bench.contenders.upstream", "Upstream"),
    "pooled": ("tools.bench.contenders.kept", "HarnessPooled"),
    "threads": ("tools.bench.contenders.kept", "HarnessThreads"),
    "local": ("tools.bench.contenders.kept", "HarnessLocal"),
    "fresh": ("tools.bench.contenders.kept", "HarnessFresh"),
    "upstream-pooled": ("tools.bench.contenders.kept", "UpstreamPooled"),
    "upstream-threads": ("tools.bench.contenders.kept", "UpstreamThreads"),
}
TITLES = {
    "bare": "bare program",
    "forkserver": "fork server",
    "spawn": "spawn",
    "upstream": "upstream",
    "pooled": "pooled",
    "threads": "threads",
    "local": "local tensor",
    "fresh": "fresh",
    "upstream-pooled": "upstream pooled",
    "upstream-threads": "upstream threads",
}
# The contenders whose ranks are kept: they are measured by a class's first test and by its later ones.
KEPT = ("pooled", "threads", "local", "fresh", "upstream-pooled", "upstream-threads")
assert _HOMES.keys() == TITLES.keys()


def make(name: str) -> Contender:
    """Creates the contender of that name; to be called in the process that runs it."""
    module, attribute = _HOMES[name]
    contender = getattr(importlib.import_module(module), attribute)()
    assert isinstance(contender, Contender)
    return contender
