"""The command that runs one test again under pytest, as the text of a failure names it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

import pytest

from harness.pytest_plugin.options import OPTIONS, SHARD, SHARD_TIMINGS

# The options of pytest under which a failed test has to be run again, each with a value.
_WITH_VALUE = frozenset({"-p", "-c", "-o", "-W", "--config-file", "--override-ini", "--pythonwarnings"}) | {
    *("--rootdir", "--import-mode", "--confcutdir"),
    *(o.name for o in OPTIONS if o.metavar and o not in (SHARD, SHARD_TIMINGS)),
}
_FLAGS = frozenset({"--noconftest", "--runxfail"}) | {o.name for o in OPTIONS if not o.metavar}
_SHORT = ("-p", "-c", "-o", "-W")


def command(item: pytest.Item, program: str) -> str:
    """The shell command for this item; ``program`` is ``sys.argv[0]`` of pytest."""
    invocation = item.config.invocation_params
    file = os.path.relpath(item.path, invocation.dir)
    names = [node.name for node in item.listchain() if isinstance(node, (pytest.Class, pytest.Item))]
    started = ["python", "-m", "pytest"] if os.path.basename(program) == "__main__.py" else ["pytest"]
    words = [*started, "::".join([file, *names]), *conditions([str(arg) for arg in invocation.args])]
    return shlex.join(words)


def conditions(arguments: Sequence[str]) -> list[str]:
    """Of a command line of pytest, the options that can change the verdict of a test. Pure."""
    return list(_conditions(iter(arguments)))


def _conditions(arguments: Iterator[str]) -> Iterator[str]:
    for word in arguments:
        if word == "--":
            return
        name, given, _ = word.partition("=")
        if word in _FLAGS or (given and name in _WITH_VALUE) or _is_joined(word):
            yield word
        elif word in _WITH_VALUE:
            yield word
            yield from (value for value in (next(arguments, None),) if value is not None)


def _is_joined(word: str) -> bool:
    """Whether the word is a short option with its value behind it: ``-pno:randomly``."""
    return len(word) > 2 and word[:2] in _SHORT and not word.startswith("--")
