"""The command that runs one test again under pytest, as the text of a failure names it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence

import pytest

from harness.pytest_plugin.options import OPTIONS, SHARD, SHARD_TIMINGS

# The options of pytest and of its plugins under which a failed test has to be run again, each with a value.
_WITH_VALUE = frozenset({"-p", "-c", "-o", "-W", "--config-file", "--override-ini", "--pythonwarnings"}) | {
    *("--rootdir", "--import-mode", "--confcutdir"),
    *("--timeout", "--timeout-method", "--hypothesis-seed", "--hypothesis-profile", "--asyncio-mode"),
    *(o.name for o in OPTIONS if o.metavar and o not in (SHARD, SHARD_TIMINGS)),
}
_FLAGS = frozenset({"--noconftest", "--runxfail", "--randomly-dont-reset-seed"}) | {
    o.name for o in OPTIONS if not o.metavar
}
_LIBRARY = __name__.partition(".")[0]
_SHORT = ("-p", "-c", "-o", "-W")
# What the controller of a pytest-xdist run tells its workers: how it was started.
STARTED = "torch_harness_started"


def command(item: pytest.Item) -> str:
    """The shell command for this item."""
    invocation = item.config.invocation_params
    file = os.path.relpath(item.path, invocation.dir)
    names = [node.name for node in item.listchain() if isinstance(node, (pytest.Class, pytest.Item))]
    options = [*conditions([str(arg) for arg in invocation.args]), *_seed(item.config)]
    return shlex.join([*started(item.config), "::".join([file, *names]), *options])


def has_its_own(case: object) -> bool:
    """Whether the case has a command of the project's; that of the drop-in, by unittest, is none."""
    own = getattr(type(case), "rerun_command", None)
    return own is not None and getattr(own, "__module__", "").partition(".")[0] != _LIBRARY


def started(config: pytest.Config) -> list[str]:
    """How this run, or the controller of this worker, was started: the words before pytest's arguments."""
    told: list[str] = getattr(config, "workerinput", {}).get(STARTED, [])
    return told or as_typed(sys.argv[0], sys.orig_argv)


def as_typed(program: str, words: Sequence[str]) -> list[str]:
    """The words that start pytest, of a process with this ``sys.argv[0]`` and ``sys.orig_argv``."""
    name = os.path.basename(program)
    if name == "__main__.py":
        ends = [end for end in range(2, len(words) + 1) if [*words[end - 2 : end]] == ["-m", "pytest"]]
        return [*words[: ends[0]]] if ends else ["python", "-m", "pytest"]
    if name in ("pytest", "py.test"):
        return [name if shutil.which(name) == program else program]
    return ["pytest"]


def _seed(config: pytest.Config) -> list[str]:
    """The seed of this run by pytest-randomly, which fixtures may have drawn from."""
    seed = getattr(config.option, "randomly_seed", None)
    return [f"--randomly-seed={seed}"] if isinstance(seed, int) else []


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
